"""A server that streams tokens by an exact schedule, and keeps its own record of when it wrote them.

The generator's self-test: what it measures is held against what this server's clock says of the same streams. It speaks
all three APIs, counts words as tokens, and answers /metrics in vLLM's names.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from array import array
from collections import defaultdict
from dataclasses import asdict, dataclass
from typing import Any, cast

from upright.proof.benchmark.load import allow_open_files
from upright.serving.endpoint.metrics import metric_spellings

clock = time.perf_counter
_TEXT = (
    "box rank shard token cache block page slot layer head expert router gate weight scale tile warp lane bank bus "
    "link port queue batch step draft verify accept reject prompt answer turn chat tool call field index chunk stream"
)
_WORDS = tuple(_TEXT.split())


@dataclass(frozen=True)
class Schedule:
    """When tokens are written, counted from the moment a request was read."""

    ttft_seconds: float = 0.2
    itl_seconds: float = 0.05
    tokens: int | None = None
    """None: as many as the request asks for."""
    slots: int | None = None
    """Requests served at once, the others wait; None: all."""
    port: int = 0
    """Where it listens; 0: a free one."""


class ServerConnections:
    """All connections of one server."""

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self.record = WriteTimes()
        self.running = 0
        self.requests = 0
        self.queue: list[Stream] = []
        self._due: defaultdict[int, list[Stream]] = defaultdict(list)

    def stream(self, connection: Connection, path: str, body: dict[str, Any], read_at: float) -> Stream:
        """The answer to one request; a server that misbehaves on cue gives another kind of stream."""
        return Stream(self, connection, path, body, read_at)

    def begin(self, stream: Stream) -> None:
        self.requests += 1
        slots = self.schedule.slots
        if slots is not None and self.running >= slots:
            self.queue.append(stream)
            return
        self.running += 1
        self.record.peak = max(self.record.peak, self.running)
        stream.start()

    def end(self) -> None:
        self.running -= 1
        if self.queue:
            stream = self.queue.pop(0)
            self.running += 1
            stream.start()

    def at(self, due: float, stream: Stream) -> None:
        """Streams that are due in the same tenth of a millisecond share a timer."""
        bucket = int(due * 10_000)
        waiting = self._due[bucket]
        waiting.append(stream)
        if len(waiting) == 1:
            asyncio.get_running_loop().call_later(max(0.0, due - clock()), self._fire, bucket)

    def _fire(self, bucket: int) -> None:
        for stream in self._due.pop(bucket):
            stream.write_next()

    def metrics(self) -> str:
        record = self.record
        rows = {
            metric_spellings("running")[0]: self.running,
            metric_spellings("waiting")[0]: len(self.queue),
            metric_spellings("prompt_tokens")[0]: record.prompt_tokens,
            metric_spellings("generation_tokens")[0]: record.tokens,
        }
        kinds = {name: "counter" if name.endswith("_total") else "gauge" for name in rows}
        return "".join(f'# TYPE {name} {kinds[name]}\n{name}{{engine="0"}} {value}\n' for name, value in rows.items())


class WriteTimes:
    """When things were really written."""

    def __init__(self) -> None:
        self.ttft = array("d")
        self.tpot = array("d")
        self.tokens = 0
        self.prompt_tokens = 0
        self.peak = 0
        self.began = float("inf")
        self.ended = 0.0
        self.lag_seconds = 0.0

    def summary(self) -> dict[str, Any]:
        ordered = sorted(self.ttft)
        seconds = self.ended - self.began
        return {
            "streams": len(ordered),
            "tokens": self.tokens,
            "peak": self.peak,
            "ttft_mean": sum(ordered) / len(ordered) if ordered else None,
            "ttft_p99": ordered[int(0.99 * (len(ordered) - 1))] if ordered else None,
            "itl_mean": sum(self.tpot) / len(self.tpot) if self.tpot else None,
            "tokens_per_second": self.tokens / seconds if ordered else None,
            "lag_seconds": self.lag_seconds,
            "cpu_seconds": time.process_time(),
        }


class Connection(asyncio.Protocol):
    """One client; one request at a time."""

    def __init__(self, server: ServerConnections) -> None:
        self.server = server
        self.rest = b""
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self.transport = None

    def data_received(self, data: bytes) -> None:
        self.rest += data
        end = self.rest.find(b"\r\n\r\n")
        if end < 0:
            return
        head = self.rest[:end].decode("latin-1")
        length = next((int(line[15:]) for line in head.lower().split("\r\n") if line.startswith("content-length:")), 0)
        if len(self.rest) < end + 4 + length:
            return
        body, self.rest = self.rest[end + 4 : end + 4 + length], self.rest[end + 4 + length :]
        method, path = head.split(" ", 2)[:2]
        self.answer(method, path, body, clock())

    def answer(self, method: str, path: str, body: bytes, read_at: float) -> None:
        server = self.server
        if method == "POST" and path in ENDINGS:
            asked = json.loads(body)
            if not asked.get("stream"):
                count = words_in(asked)
                usage = {"prompt_tokens": count, "input_tokens": count, "completion_tokens": 1}
                self.whole(json.dumps({"usage": usage}).encode())
                return
            server.begin(server.stream(self, path, asked, read_at))
        elif path == "/metrics":
            self.whole(server.metrics().encode(), "text/plain")
        elif path == "/tokenize":
            text = json.loads(body)
            self.whole(json.dumps({"count": words_in(text)}).encode())
        elif path == "/record":
            self.whole(json.dumps(server.record.summary()).encode())
            server.record = WriteTimes()
        else:
            self.whole(json.dumps({"data": [{"id": "scheduled"}]}).encode())

    def whole(self, content: bytes, kind: str = "application/json", status: str = "200 OK") -> None:
        if self.transport is not None:
            head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(content)}\r\n\r\n"
            self.transport.write(head.encode() + content)


class Stream:
    """The tokens of one answer."""

    def __init__(
        self, server: ServerConnections, connection: Connection, path: str, body: dict[str, Any], read_at: float
    ) -> None:
        self.server, self.connection, self.path = server, connection, path
        self.read_at = read_at
        self.prompt_tokens = words_in(body)
        self.tokens = server.schedule.tokens or int(body.get("max_tokens") or body.get("max_completion_tokens") or 16)
        self.written = 0
        self.first_at = 0.0
        self.number = server.requests
        server.record.began = min(server.record.began, read_at)

    def start(self) -> None:
        if self.server.schedule.slots is not None:
            self.started_at = clock()
        else:
            self.started_at = self.read_at
        self.server.at(self.started_at + self.server.schedule.ttft_seconds, self)

    def write_next(self) -> None:
        due = self.started_at + self.server.schedule.ttft_seconds + self.written * self.server.schedule.itl_seconds
        now = clock()
        self.server.record.lag_seconds = max(self.server.record.lag_seconds, now - due)
        if self.written == 0:
            self.first_at = now
        last = self.written + 1 == self.tokens
        pieces = [] if self.written else [HEAD, BEGINNINGS[self.path](self)]
        pieces.append(PIECES[self.path][(self.written * 11 + self.number) % len(_WORDS)])
        if last:
            pieces.append(self.ending())
        self.written += 1
        if not self.write(b"".join(pieces)):
            self.server.end()
        elif last:
            self.finish(now)
        else:
            self.server.at(due + self.server.schedule.itl_seconds, self)

    def write(self, data: bytes) -> bool:
        """False if the client is gone."""
        if self.connection.transport is None:
            return False
        self.connection.transport.write(data)
        return True

    def ending(self) -> bytes:
        return ENDINGS[self.path](self)

    def finish(self, now: float) -> None:
        record = self.server.record
        record.ttft.append(self.first_at - self.read_at)
        if self.tokens > 1:
            record.tpot.append((now - self.first_at) / (self.tokens - 1))
        record.tokens += self.tokens
        record.prompt_tokens += self.prompt_tokens
        record.ended = max(record.ended, now)
        self.server.end()


def words_in(body: dict[str, Any]) -> int:
    if "prompt" in body:
        return len(str(body["prompt"]).split())
    return sum(len(str(message.get("content", "")).split()) for message in body.get("messages", ()))


def chunk(*events: bytes) -> bytes:
    content = b"".join(events)
    return f"{len(content):x}\r\n".encode() + content + b"\r\n"


def event(data: Any, name: str | None = None) -> bytes:
    text = data if isinstance(data, str) else json.dumps(data)
    return (f"event: {name}\n" if name else "").encode() + f"data: {text}\n\n".encode()


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
END = b"0\r\n\r\n"
_CHAT, _COMPLETIONS, _MESSAGES = "/v1/chat/completions", "/v1/completions", "/v1/messages"


def _openai(choice: dict[str, Any] | None, usage: dict[str, int] | None = None) -> bytes:
    choices = [] if choice is None else [{"index": 0, **choice}]
    kind = "text_completion" if choice is not None and "text" in choice else "chat.completion.chunk"
    data: dict[str, Any] = {"id": "s", "object": kind, "created": 0, "model": "scheduled", "choices": choices}
    return event(data if usage is None else {**data, "usage": usage})


def _openai_usage(stream: Stream) -> dict[str, int]:
    return {
        "prompt_tokens": stream.prompt_tokens,
        "completion_tokens": stream.written + 1,
        "total_tokens": stream.prompt_tokens + stream.written + 1,
    }


def _chat_end(stream: Stream) -> bytes:
    finish = _openai({"delta": {}, "finish_reason": "length"})
    return chunk(finish, _openai(None, _openai_usage(stream)), event("[DONE]")) + END


def _completions_end(stream: Stream) -> bytes:
    finish = _openai({"text": "", "finish_reason": "length"})
    return chunk(finish, _openai(None, _openai_usage(stream)), event("[DONE]")) + END


def _messages_end(stream: Stream) -> bytes:
    delta = {
        "type": "message_delta",
        "delta": {"stop_reason": "max_tokens"},
        "usage": {"output_tokens": stream.written + 1},
    }
    return chunk(event(delta, "message_delta"), event({"type": "message_stop"}, "message_stop")) + END


def _messages_begin(stream: Stream) -> bytes:
    usage = {"input_tokens": stream.prompt_tokens, "output_tokens": 0}
    return chunk(event({"type": "message_start", "message": {"usage": usage}}, "message_start"))


BEGINNINGS = {
    _CHAT: lambda stream: chunk(_openai({"delta": {"role": "assistant", "content": ""}, "finish_reason": None})),
    _COMPLETIONS: lambda stream: b"",
    _MESSAGES: _messages_begin,
}
ENDINGS = {_CHAT: _chat_end, _COMPLETIONS: _completions_end, _MESSAGES: _messages_end}
PIECES = {
    _CHAT: [chunk(_openai({"delta": {"content": f" {word}"}, "finish_reason": None})) for word in _WORDS],
    _COMPLETIONS: [chunk(_openai({"text": f" {word}", "finish_reason": None})) for word in _WORDS],
    _MESSAGES: [
        chunk(event({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": f" {word}"}}))
        for word in _WORDS
    ],
}


async def serve(server: ServerConnections) -> None:
    """Serve on loopback, until stdin ends; the port is the first line on stdout."""
    allow_open_files()
    loop = asyncio.get_running_loop()
    listening = await loop.create_server(lambda: Connection(server), "127.0.0.1", server.schedule.port, backlog=4096)
    print(listening.sockets[0].getsockname()[1], flush=True)
    gone = asyncio.Event()

    def heard() -> None:
        if not os.read(sys.stdin.fileno(), 4096):
            gone.set()

    loop.add_reader(sys.stdin.fileno(), heard)
    await gone.wait()
    listening.close()


def command(schedule: Schedule, module: str = "upright.proof.benchmark.scheduled_server") -> list[str]:
    """The argv of a child that serves this schedule."""
    return [sys.executable, "-m", module, json.dumps(asdict(schedule))]


def main() -> None:
    server = ServerConnections(Schedule(**json.loads(sys.argv[1])))
    with asyncio.Runner() as runner:
        runner.run(serve(server))


if __name__ == "__main__":
    main()
