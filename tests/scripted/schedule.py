"""The scheduled server, and on cue one that misbehaves: what a real engine does once in a while, this does on request.

Faults by name; each touches one request in `every`: `500`, `cut` (the connection ends in the middle), `truncated` (the
body ends properly, before the answer does), `done` ([DONE] without a finish_reason), `uncounted` (no usage),
`error-event`, `dribble` (a byte at a time), `stall` (silence after a few tokens), `nonsense` (not HTTP), `die`.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from dataclasses import dataclass
from typing import Any

from upright.proof.benchmark.scheduled_server import (
    END,
    Connection,
    Schedule,
    ServerConnections,
    Stream,
    chunk,
    command,
    event,
    serve,
)


@dataclass(frozen=True)
class Faults:
    """What goes wrong, and how often."""

    kind: str
    every: int = 5
    after: int = 0
    """Requests that go well first."""


class FaultyServer(ServerConnections):
    def __init__(self, schedule: Schedule, faults: Faults) -> None:
        super().__init__(schedule)
        self.faults = faults

    def stream(self, connection: Connection, path: str, body: dict[str, Any], read_at: float) -> Stream:
        number = self.requests - self.faults.after
        if number < 0 or number % self.faults.every:
            return super().stream(connection, path, body, read_at)
        return FaultyStream(self, connection, path, body, read_at)


class FaultyStream(Stream):
    """A stream that goes wrong in the way of its server."""

    server: FaultyServer
    queue: asyncio.Queue[bytes] | None = None

    def start(self) -> None:
        match self.server.faults.kind:
            case "500":
                self.connection.whole(b'{"error": {"message": "out of luck"}}', status="500 Internal Server Error")
                self.server.end()
            case "nonsense":
                self.write(b"220 mail.example ESMTP\r\n\r\n")
                self.server.end()
            case "die":
                os._exit(9)
            case _:
                super().start()

    def write_next(self) -> None:
        kind = self.server.faults.kind
        if self.written < 3 or kind in ("dribble", "done", "uncounted"):
            super().write_next()
        elif kind == "cut" and self.connection.transport is not None:
            self.connection.transport.abort()
            self.server.end()
        elif kind == "truncated":
            self.write(END)
            self.server.end()
        elif kind == "error-event":
            self.write(chunk(event({"error": {"message": "the engine died"}}), event("[DONE]")) + END)
            self.server.end()
        elif kind == "stall":
            self.server.end()

    def ending(self) -> bytes:
        kind = self.server.faults.kind
        if kind == "done":
            return chunk(event("[DONE]")) + END
        if kind == "uncounted":
            choice = {"index": 0, "delta": {}, "text": "", "finish_reason": "length"}
            return chunk(event({"choices": [choice]}), event("[DONE]")) + END
        return super().ending()

    def write(self, data: bytes) -> bool:
        if self.server.faults.kind != "dribble":
            return super().write(data)
        if self.queue is None:
            self.queue = asyncio.Queue()
            self.task = asyncio.get_running_loop().create_task(self._dribble(self.queue))
        self.queue.put_nowait(data)
        return self.connection.transport is not None

    async def _dribble(self, queue: asyncio.Queue[bytes]) -> None:
        while self.connection.transport is not None:
            data = await queue.get()
            for position in range(len(data)):
                super().write(data[position : position + 1])
                await asyncio.sleep(0)


def faulty(schedule: Schedule, faults: Faults) -> list[str]:
    """The argv of a child that serves with faults."""
    return [*command(schedule, "tests.scripted.schedule"), json.dumps(vars(faults))]


def main() -> None:
    server = FaultyServer(Schedule(**json.loads(sys.argv[1])), Faults(**json.loads(sys.argv[2])))
    with asyncio.Runner() as runner:
        runner.run(serve(server))


if __name__ == "__main__":
    main()
