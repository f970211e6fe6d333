"""Protocol faults in the streams that clients read, OpenAI's and Anthropic's, each in words.

Clients forgive little: an event out of order hangs an editor, a wrong finish reason drops a tool call. These are the
protocols as their makers document them; what an engine adds beyond is no fault.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from upright.base.bounds.bounded_json import parse_json

_DONE = "[DONE]"
_DELTA_OF = {"text": "text_delta", "tool_use": "input_json_delta", "thinking": "thinking_delta"}
_BESIDE = {"signature_delta", "citations_delta"}


def openai_faults(lines: Iterable[str]) -> list[str]:
    """Of `POST /v1/chat/completions` with `stream` and `stream_options.include_usage`."""
    seen = _Chat()
    for _, payload in events_of(lines):
        seen.take(payload)
    return [*seen.faults, *seen.missing()]


def anthropic_faults(lines: Iterable[str]) -> list[str]:
    """Of `POST /v1/messages` with `stream`."""
    seen = _message(lines)
    return [*seen.faults, *seen.missing()]


def anthropic_overlaps(lines: Iterable[str]) -> list[str]:
    """Blocks that start before the one before them has stopped: a client that goes by their index forgives it."""
    return _message(lines).overlaps


def anthropic_error(lines: Iterable[str]) -> str | None:
    """What the server says went wrong inside the stream; None if nothing did."""
    return _message(lines).error_words


def anthropic_blocks(lines: Iterable[str]) -> list[str]:
    """The kinds of the blocks, in the order in which they start."""
    return _message(lines).blocks


def _message(lines: Iterable[str]) -> _Message:
    seen = _Message()
    for name, payload in events_of(lines):
        seen.take(name, payload)
    return seen


def events_of(lines: Iterable[str]) -> Iterator[tuple[str | None, str]]:
    """(event, data) of each event; lines that begin with a colon are comments."""
    name, data_lines = None, list[str]()
    for line in (*lines, ""):
        if line.startswith("event:"):
            name = line.removeprefix("event:").strip()
        elif line.startswith("data:"):
            data_lines.append(line.removeprefix("data:").strip())
        elif not line.strip() and data_lines:
            yield name, "\n".join(data_lines)
            name, data_lines = None, []


@dataclass
class _Chat:
    faults: list[str] = field(default_factory=list)
    ids: set[str] = field(default_factory=set)
    calls: dict[int, tuple[str | None, str]] = field(default_factory=dict)
    finish: str | None = None
    spoke: bool = False
    usage: bool = False
    done: bool = False
    error: bool = False

    def take(self, data: str) -> None:
        if self.done:
            self.faults.append("data after [DONE]")
        elif data == _DONE:
            self.done = True
            if self.error:
                self.faults.append("[DONE] after an error, as if all were well")
        elif (chunk := object_of(data)) is None:
            self.faults.append(f"a chunk is not JSON: {data[:40]}")
        elif "error" in chunk:
            self.error = True
        else:
            self._chunk(chunk)

    def _chunk(self, chunk: dict[str, Any]) -> None:
        self.ids.add(str(chunk.get("id")))
        if isinstance(chunk.get("usage"), dict):
            self.usage = True
        for choice in chunk.get("choices") or ():
            delta = choice.get("delta") or {}
            if not self.spoke and delta.get("role") != "assistant":
                self.faults.append("the first delta does not say the role")
            self.spoke = True
            if self.finish is not None and (delta.get("content") or delta.get("tool_calls")):
                self.faults.append("content after the finish reason")
            for call in delta.get("tool_calls") or ():
                self._call(call)
            self.finish = choice.get("finish_reason") or self.finish

    def _call(self, call: dict[str, Any]) -> None:
        index, name = call.get("index"), call.get("id")
        if not isinstance(index, int):
            self.faults.append("a tool call has no index")
            return
        before, arguments = self.calls.get(index, (None, ""))
        if before is not None and name not in (None, "", before):
            self.faults.append(f"two tool calls share index {index}")
        piece = (call.get("function") or {}).get("arguments") or ""
        self.calls[index] = (before or name, arguments + piece)

    def missing(self) -> Iterator[str]:
        if self.error:
            return
        if len(self.ids) > 1:
            yield "the id changes within the stream"
        if self.finish is None:
            yield "no finish reason"
        if self.calls and self.finish == "stop":
            yield "a tool call that finishes with `stop`"
        if self.finish == "tool_calls" and not self.calls:
            yield "finishes with `tool_calls` and calls no tool"
        for index, (_, arguments) in self.calls.items():
            if self.finish != "length" and object_of(arguments) is None:
                yield f"the arguments of tool call {index} are not JSON"
        if not self.usage:
            yield "no usage, though it was asked for"
        if not self.done:
            yield "no [DONE]"


@dataclass
class _Message:
    faults: list[str] = field(default_factory=list)
    overlaps: list[str] = field(default_factory=list)
    started: bool = False
    stopped: bool = False
    error: bool = False
    open: dict[int, str] = field(default_factory=dict)
    """Index -> kind of the blocks that have started and not stopped; more than one is a fault, and told once."""
    blocks: list[str] = field(default_factory=list)
    inputs: dict[int, str] = field(default_factory=dict)
    stop_reason: str | None = None
    usage: bool = False
    error_words: str | None = None

    def take(self, name: str | None, data: str) -> None:
        event = object_of(data)
        if event is None:
            self.faults.append(f"an event is not JSON: {data[:40]}")
            return
        kind = str(event.get("type"))
        if name is not None and name != kind:
            self.faults.append(f"the event {name} says that it is {kind}")
        if kind == "ping":
            return
        if self.stopped:
            self.faults.append(f"{kind} after message_stop")
        if not self.started and kind not in ("message_start", "error"):
            self.faults.append(f"{kind} before message_start")
        handler = getattr(self, f"_{kind}", None)
        if handler is not None:
            handler(event)

    def _error(self, event: dict[str, Any]) -> None:
        self.error = True
        error = event.get("error")
        self.error_words = str(error.get("message") if isinstance(error, dict) else error)

    def _message_start(self, event: dict[str, Any]) -> None:
        if self.started:
            self.faults.append("a second message_start")
        self.started = True

    def _content_block_start(self, event: dict[str, Any]) -> None:
        index, kind = _index(event), str((event.get("content_block") or {}).get("type"))
        if self.open:
            self.overlaps.append(f"block {index} starts before block {next(iter(self.open))} has stopped")
        if index != len(self.blocks):
            self.faults.append(f"block {index} where block {len(self.blocks)} is next")
        self.blocks.append(kind)
        self.open[index] = kind

    def _content_block_delta(self, event: dict[str, Any]) -> None:
        index, delta = _index(event), event.get("delta") or {}
        if index not in self.open:
            self.faults.append(f"a delta for block {index}, which is not open")
            return
        wanted = _DELTA_OF.get(self.open[index])
        if wanted is not None and delta.get("type") not in {wanted, *_BESIDE}:
            self.faults.append(f"a {delta.get('type')} in a block of {self.open[index]}")
        self.inputs[index] = self.inputs.get(index, "") + str(delta.get("partial_json") or "")

    def _content_block_stop(self, event: dict[str, Any]) -> None:
        index = _index(event)
        kind, text = self.open.pop(index, None), self.inputs.get(index)
        if kind is None:
            self.faults.append(f"block {index} stops, which is not open")
        elif kind == "tool_use" and text and object_of(text) is None:
            self.faults.append(f"the input of tool_use block {index} is not JSON")

    def _message_delta(self, event: dict[str, Any]) -> None:
        self.stop_reason = (event.get("delta") or {}).get("stop_reason") or self.stop_reason
        self.usage = self.usage or isinstance((event.get("usage") or {}).get("output_tokens"), int)

    def _message_stop(self, event: dict[str, Any]) -> None:
        self.stopped = True

    def missing(self) -> Iterator[str]:
        if self.error:
            if self.stopped:
                yield "message_stop after an error, as if all were well"
            return
        for index in self.open:
            yield f"block {index} never stops"
        if self.stop_reason is None:
            yield "no stop reason"
        if "tool_use" in self.blocks and self.stop_reason == "end_turn":
            yield "a tool_use that stops with `end_turn`"
        if self.stop_reason == "tool_use" and "tool_use" not in self.blocks:
            yield "stops with `tool_use` and uses no tool"
        if not self.usage:
            yield "no usage in message_delta"
        if not self.stopped:
            yield "no message_stop"


def _index(event: dict[str, Any]) -> int:
    """-1, which no block has, if the event names none."""
    index = event.get("index")
    return index if isinstance(index, int) else -1


def object_of(text: str) -> dict[str, Any] | None:
    try:
        payload = parse_json(text)
    except ValueError:
        return None
    return payload if isinstance(payload, dict) else None
