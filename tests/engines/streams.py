"""Clients that stream through a router until they are told to stop, and remember which box served each stream.

A reader of its own, so that the load generator is not its own judge: a stream is good only with a finish_reason and a
usage; `[DONE]` alone proves nothing.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Stream:
    """One request and what became of it."""

    began: float
    box: str | None = None
    """The engine's port, by the router's own header."""
    ended: float | None = None
    pieces: int = 0
    fault: str | None = None
    done: bool = False
    """`[DONE]` came."""


@dataclass
class Streams:
    """`count` clients in a thread of their own; use it in a `with`."""

    port: int
    key: str
    model: str
    count: int = 64
    tokens: int = 120
    pause_seconds: float = 0.0
    """Between an answer and the next question of the same client."""
    seen: list[Stream] = field(default_factory=list)
    _stop: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Streams:
        self._thread = threading.Thread(target=lambda: asyncio.run(self._all()), daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(120)
        assert not self._thread.is_alive(), "a stream never ended"

    def until(self, holds: Any, what: str, seconds: float = 60) -> None:
        deadline = time.monotonic() + seconds
        while not holds():
            assert time.monotonic() < deadline, f"never: {what}; {self.summary()}"
            time.sleep(0.05)

    def ended(self) -> list[Stream]:
        return [each for each in list(self.seen) if each.ended is not None]

    def faults(self) -> list[Stream]:
        return [each for each in self.ended() if each.fault is not None]

    def running(self) -> Counter[str | None]:
        """Streams whose answer has begun, by box."""
        return Counter(each.box for each in list(self.seen) if each.ended is None and each.pieces)

    def settled(self, box: str, seconds: float = 0.5) -> int:
        """Streams of a box that stands still, once nothing more has come of them for a while."""
        before = -1
        while (pieces := sum(each.pieces for each in list(self.seen) if each.box == box)) != before:
            before = pieces
            time.sleep(seconds)
        return self.running()[box]

    def summary(self) -> str:
        by_box = Counter(each.box for each in self.ended() if each.fault is None)
        return (
            f"{len(self.seen)} streams, good by box {dict(by_box)}, faults {[each.fault for each in self.faults()][:5]}"
        )

    async def _all(self) -> None:
        await asyncio.gather(*(self._client(number) for number in range(self.count)))

    async def _client(self, number: int) -> None:
        turn = 0
        while not self._stop.is_set():
            stream = Stream(time.monotonic())
            self.seen.append(stream)
            try:
                await asyncio.wait_for(self._ask(stream, f"{number} {turn}"), 100)
            except (OSError, ValueError, asyncio.IncompleteReadError, TimeoutError) as error:
                stream.fault = f"{type(error).__name__}: {error}"
            stream.ended = time.monotonic()
            turn += 1
            await asyncio.sleep(self.pause_seconds)

    async def _ask(self, stream: Stream, words: str) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        body = json.dumps(
            {
                "model": self.model,
                "messages": [{"role": "user", "content": f"{words}: tell me about the number {words}."}],
                "max_tokens": self.tokens,
                "ignore_eos": True,
                "stream": True,
                "stream_options": {"include_usage": True},
            }
        ).encode()
        head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {self.key}\r\n"
        head += "Connection: close\r\n"
        writer.write(f"{head}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
        try:
            status = (await reader.readline()).decode()
            while (line := (await reader.readline()).decode().strip()) != "":
                name, _, value = line.partition(": ")
                if name.lower() == "x-smg-routed-worker-id":
                    stream.box = value.rpartition(":")[2]
            finish, usage = None, None
            async for line in _lines(reader):
                data = line.removeprefix("data: ").strip() if line.startswith("data: ") else ""
                if data == "[DONE]":
                    stream.done = True
                elif data:
                    chunk = json.loads(data)
                    stream.pieces += 1
                    if chunk.get("error"):
                        stream.fault = stream.fault or f"error event: {data[:200]}"
                    for choice in chunk.get("choices") or ():
                        finish = choice.get("finish_reason") or finish
                    usage = chunk.get("usage") or usage
            if " 200 " not in status:
                stream.fault = status.strip() or "no answer"
            elif finish is None or not usage:
                stream.fault = stream.fault or f"finish_reason {finish}, usage {usage}"
        finally:
            writer.close()


async def _lines(reader: asyncio.StreamReader) -> AsyncIterator[str]:
    """The lines of a chunked body."""
    left = b""
    while size := int((await reader.readline()).strip() or b"0", 16):
        left += await reader.readexactly(size)
        await reader.readline()
        *whole, left = left.split(b"\n")
        for line in whole:
            yield line.decode()
