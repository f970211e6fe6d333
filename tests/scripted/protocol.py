"""A server on loopback that speaks chat completions and messages, and breaks their streams in one chosen way."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar, Literal

Chunks = list[Any]
Events = list[dict[str, Any]]
MODEL = "tiny-kimi"


def chunk(delta: dict[str, Any], finish: str | None = None, **more: Any) -> dict[str, Any]:
    return {"id": "1", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}], **more}


def call(index: int, arguments: str, name: str | None = None) -> dict[str, Any]:
    return {"tool_calls": [{"index": index, "id": name, "function": {"arguments": arguments}}]}


def text_stream() -> Chunks:
    usage = {"id": "1", "choices": [], "usage": {"completion_tokens": 2}}
    return [
        chunk({"role": "assistant"}),
        chunk({"content": "Par"}),
        chunk({"content": "is"}),
        chunk({}, "stop"),
        usage,
        "[DONE]",
    ]


def tool_stream() -> Chunks:
    calls = [chunk({"role": "assistant"}), chunk(call(0, '{"city":', "a")), chunk(call(0, '"Paris"}'))]
    return [*calls, chunk({}, "tool_calls"), {"id": "1", "choices": [], "usage": {}}, "[DONE]"]


def spoken(chunks: Chunks) -> list[str]:
    lines = []
    for each in chunks:
        lines += [f"data: {each if isinstance(each, str) else json.dumps(each)}", ""]
    return lines


def message(block: str = "text") -> Events:
    delta = (
        {"type": "text_delta", "text": "Paris"}
        if block == "text"
        else {"type": "input_json_delta", "partial_json": "{}"}
    )
    return [
        {"type": "message_start", "message": {"usage": {"input_tokens": 1}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": block}},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "end_turn" if block == "text" else "tool_use"},
            "usage": {"output_tokens": 1},
        },
        {"type": "message_stop"},
    ]


def said(events: Events, names: dict[int, str] | None = None) -> list[str]:
    lines = []
    for number, event in enumerate(events):
        lines += [f"event: {(names or {}).get(number, event['type'])}", f"data: {json.dumps(event)}", ""]
    return lines


def swapped(events: Events, one: int, other: int) -> None:
    events[one], events[other] = events[other], events[one]


@dataclass(frozen=True)
class Fault:
    """One way to break a stream, and the words that name it."""

    protocol: Literal["chat", "messages"]
    stream: Literal["text", "tool"]
    change: Callable[[Any], object]
    words: str


FAULTS = [
    Fault("chat", "text", lambda c: c.pop(), "no [DONE]"),
    Fault("chat", "text", lambda c: c.append(chunk({"content": "!"})), "data after [DONE]"),
    Fault("chat", "text", lambda c: c.insert(3, {"error": {}}), "[DONE] after an error, as if all were well"),
    Fault("chat", "text", lambda c: c.pop(4), "no usage, though it was asked for"),
    Fault("chat", "text", lambda c: c.pop(3), "no finish reason"),
    Fault("chat", "text", lambda c: c.insert(4, chunk({"content": "!"})), "content after the finish reason"),
    Fault("chat", "text", lambda c: c[2].update(id="2"), "the id changes within the stream"),
    Fault("chat", "text", lambda c: c.pop(0), "the first delta does not say the role"),
    Fault("chat", "text", lambda c: c.insert(1, "{broken"), "a chunk is not JSON: {broken"),
    Fault(
        "chat", "text", lambda c: c.__setitem__(3, chunk({}, "tool_calls")), "finishes with `tool_calls` and calls no"
    ),
    Fault("chat", "tool", lambda c: c.__setitem__(3, chunk({}, "stop")), "a tool call that finishes with `stop`"),
    Fault("chat", "tool", lambda c: c.insert(3, chunk(call(0, "", "b"))), "two tool calls share index 0"),
    Fault("chat", "tool", lambda c: c.pop(2), "the arguments of tool call 0 are not JSON"),
    Fault("messages", "text", lambda e: swapped(e, 1, 2), "a delta for block 0, which is not open"),
    Fault("messages", "text", lambda e: e.pop(), "no message_stop"),
    Fault("messages", "text", lambda e: e.append({"type": "message_delta"}), "message_delta after message_stop"),
    Fault("messages", "text", lambda e: e.pop(3), "block 0 never stops"),
    Fault("messages", "text", lambda e: e[4].pop("usage"), "no usage in message_delta"),
    Fault("messages", "text", lambda e: e[4].update(delta={}), "no stop reason"),
    Fault(
        "messages", "text", lambda e: e[4].update(delta={"stop_reason": "tool_use"}), "stops with `tool_use` and uses"
    ),
    Fault("messages", "text", lambda e: e.insert(1, {"type": "message_start"}), "a second message_start"),
    Fault("messages", "text", lambda e: [each.update(index=1) for each in e[1:4]], "block 1 where block 0 is next"),
    Fault("messages", "text", lambda e: e.insert(3, {"type": "error"}), "message_stop after an error, as if all"),
    Fault("messages", "tool", lambda e: e[4].update(delta={"stop_reason": "end_turn"}), "a tool_use that stops with"),
    Fault(
        "messages", "tool", lambda e: e[2]["delta"].update(partial_json='{"a'), "the input of tool_use block 0 is not"
    ),
    Fault("messages", "tool", lambda e: e[2]["delta"].update(type="text_delta"), "a text_delta in a block of tool_use"),
]


def lines_of(protocol: str, stream: str, fault: Fault | None = None) -> list[str]:
    made: list[Any]
    if protocol == "chat":
        made = text_stream() if stream == "text" else tool_stream()
    else:
        made = message("text" if stream == "text" else "tool_use")
    if fault is not None and (fault.protocol, fault.stream) == (protocol, stream):
        fault.change(made)
    return spoken(made) if protocol == "chat" else said(made)


@contextmanager
def serving(fault: Fault | None = None) -> Iterator[str]:
    """Its address."""
    handler = type("Handler", (_Handler,), {"fault": fault})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    fault: ClassVar[Fault | None]
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.answer(json.dumps({"data": [{"id": MODEL, "object": "model"}]}))

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        protocol = "messages" if "/v1/messages" in self.path else "chat"
        if len(str(body["messages"])) > 10_000:
            self.answer('{"error": {"message": "too long"}}', status=400)
        elif self.path.endswith("count_tokens"):
            self.answer('{"input_tokens": 9}')
        elif body.get("stream"):
            lines = lines_of(protocol, "tool" if body.get("tools") else "text", self.fault)
            self.answer("\n".join(lines) + "\n", kind="text/event-stream")
        elif protocol == "messages":
            usage = {"input_tokens": 9, "output_tokens": 1}
            told = {"type": "message", "role": "assistant", "content": [], "stop_reason": "end_turn", "usage": usage}
            self.answer(json.dumps(told))
        else:
            self.answer(json.dumps({"choices": [{"message": {"content": "P"}, "finish_reason": "length"}]}))

    def answer(self, body: str, status: int = 200, kind: str = "application/json") -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body.encode())))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_: object) -> None:
        pass
