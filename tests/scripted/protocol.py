"""A server on loopback that speaks chat completions, responses and messages, and breaks them in one chosen way."""

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
MODEL, KEY = "tiny-kimi", "sk-scripted"


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
    delta = {
        "text": {"type": "text_delta", "text": "Paris"},
        "thinking": {"type": "thinking_delta", "thinking": "Paris"},
        "tool_use": {"type": "input_json_delta", "partial_json": "{}"},
    }[block]
    return [
        {"type": "message_start", "message": {"usage": {"input_tokens": 1}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": block}},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "tool_use" if block == "tool_use" else "end_turn"},
            "usage": {"output_tokens": 1},
        },
        {"type": "message_stop"},
    ]


def response(kind: str = "message") -> Events:
    """One item, numbered, with its index; whole at its end."""
    item: dict[str, Any] = {"id": "i", "type": kind}
    where = {"item_id": "i", "output_index": 0}
    if kind == "message":
        part = {**where, "content_index": 0}
        whole = {**item, "content": [{"type": "output_text", "text": "Paris"}]}
        pieces = [
            {"type": "response.content_part.added", **part},
            {"type": "response.output_text.delta", **part, "delta": "Par"},
            {"type": "response.output_text.delta", **part, "delta": "is"},
            {"type": "response.output_text.done", **part, "text": "Paris"},
            {"type": "response.content_part.done", **part},
        ]
    else:
        whole = {**item, "name": "get_weather", "call_id": "c", "arguments": '{"city": "Paris"}'}
        pieces = [
            {"type": "response.function_call_arguments.delta", **where, "delta": '{"city": '},
            {"type": "response.function_call_arguments.delta", **where, "delta": '"Paris"}'},
            {"type": "response.function_call_arguments.done", **where, "arguments": whole["arguments"]},
        ]
    final = {
        "object": "response",
        "status": "completed",
        "output": [whole],
        "usage": {"input_tokens": 9, "output_tokens": 2},
    }
    events = [
        {"type": "response.created", "response": {"status": "in_progress"}},
        {"type": "response.output_item.added", "output_index": 0, "item": item},
        *pieces,
        {"type": "response.output_item.done", "output_index": 0, "item": whole},
        {"type": "response.completed", "response": final},
    ]
    return [{**event, "sequence_number": number} for number, event in enumerate(events)]


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

    protocol: Literal["chat", "messages", "responses"]
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
    Fault("responses", "text", lambda e: e.pop(), "no response.completed"),
    Fault("responses", "text", lambda e: e.pop(0), "response.output_item.added before response.created"),
    Fault(
        "responses", "text", lambda e: e.append({**e[3], "sequence_number": 9}), "response.output_text.delta after resp"
    ),
    Fault("responses", "text", lambda e: [each.pop("sequence_number") for each in e], "events have no sequence_number"),
    Fault("responses", "text", lambda e: e[4].update(sequence_number=1), "sequence_number 1 after 3"),
    Fault(
        "responses", "text", lambda e: [each.pop("output_index", 0) for each in e], "events of items have no output_in"
    ),
    Fault("responses", "text", lambda e: e[1].update(output_index=1), "item 1 where item 0 is next"),
    Fault("responses", "text", lambda e: e[3].update(item_id="j"), "a delta for an item that is not open"),
    Fault("responses", "text", lambda e: e[5].update(text="Rome"), "the text that is done is not what its deltas say"),
    Fault("responses", "text", lambda e: e.pop(7), "an item is never done"),
    Fault("responses", "text", lambda e: e[8]["response"].pop("usage"), "no usage in response.completed"),
    Fault(
        "responses", "text", lambda e: e[8]["response"].update(status="in_progress"), "response.completed says that its"
    ),
    Fault(
        "responses", "text", lambda e: e[8]["response"].update(output=[]), "the whole response does not hold the items"
    ),
    Fault(
        "responses", "text", lambda e: e.insert(5, {"type": "error"}), "response.completed after an error, as if all"
    ),
    Fault(
        "responses", "tool", lambda e: e[5]["item"].update(arguments='{"a'), "the arguments of a function call are not"
    ),
    Fault("responses", "tool", lambda e: e.pop(3), "the arguments that are done are not what their deltas say"),
    Fault(
        "responses",
        "tool",
        lambda e: e[1]["item"].update(type="message"),
        "a response.function_call_arguments.delta in",
    ),
]


def lines_of(protocol: str, stream: str, fault: Fault | None = None) -> list[str]:
    made: list[Any]
    if protocol == "chat":
        made = text_stream() if stream == "text" else tool_stream()
    elif protocol == "responses":
        made = response("message" if stream == "text" else "function_call")
    else:
        made = message("text" if stream == "text" else "tool_use")
    if fault is not None and (fault.protocol, fault.stream) == (protocol, stream):
        fault.change(made)
    return spoken(made) if protocol == "chat" else said(made)


WHOLE: dict[str, Any] = {
    "messages": {
        "type": "message", "role": "assistant", "content": [], "stop_reason": "end_turn",
        "usage": {"input_tokens": 9, "output_tokens": 1},
    },
    "responses": response()[-1]["response"],
    "chat": {
        "id": "1", "object": "chat.completion", "usage": {"prompt_tokens": 9, "completion_tokens": 1},
        "choices": [{"message": {"role": "assistant", "content": "P"}, "finish_reason": "length"}],
    },
}  # fmt: skip


@contextmanager
def serving(fault: Fault | None = None, headers: tuple[str, ...] = ("Authorization", "x-api-key")) -> Iterator[str]:
    """Its address; `headers` are those that it reads the key from."""
    handler = type("Handler", (_Handler,), {"fault": fault, "key_headers": headers})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    fault: ClassVar[Fault | None]
    key_headers: ClassVar[tuple[str, ...]]
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        if self.path == "/metrics":
            self.answer("# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running 0\n", kind="text/plain")
        else:
            self.answer(json.dumps({"data": [{"id": MODEL, "object": "model"}]}))

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        protocol = self.path.split("/")[2]
        if KEY not in [(self.headers[name] or "").removeprefix("Bearer ") for name in self.key_headers]:
            self.answer('{"error": {"message": "no"}}', status=401)
        elif len(str(body)) > 70_000 or isinstance(body.get("messages"), str):
            self.answer('{"type": "error", "error": {"type": "invalid", "message": "too long"}}', status=400)
        elif self.path.endswith("count_tokens"):
            self.answer('{"input_tokens": 9}')
        elif body.get("stream") and body.get("thinking"):
            self.answer("\n".join(said(message("thinking"))) + "\n", kind="text/event-stream")
        elif body.get("stream"):
            lines = lines_of(protocol, "tool" if body.get("tools") else "text", self.fault)
            self.answer("\n".join(lines) + "\n", kind="text/event-stream")
        else:
            self.answer(json.dumps(WHOLE[protocol]))

    def answer(self, body: str, status: int = 200, kind: str = "application/json") -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body.encode())))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_: object) -> None:
        pass
