"""Protocol faults in a stream of `POST /v1/responses`, each in words.

Items open and close one after the other; every event has its number, and says by index which item it is of. The SDK
puts an answer together by those indexes, and stops at an event that has none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from upright.serving.connect.streams import events_of, object_of

_ENDS = ("response.completed", "response.incomplete", "response.failed")
_PIECES = {
    "response.output_text.delta": "message",
    "response.refusal.delta": "message",
    "response.function_call_arguments.delta": "function_call",
    "response.reasoning_text.delta": "reasoning",
    "response.reasoning_summary_text.delta": "reasoning",
    "response.reasoning.delta": "reasoning",
}
_OF_ITEMS = ("response.output_item.", "response.content_part.", "response.output_text.", "response.function_call_")


def responses_faults(lines: Iterable[str]) -> list[str]:
    seen = _Response()
    for name, payload in events_of(lines):
        seen.take(name, payload)
    return list(dict.fromkeys([*seen.faults, *seen.missing()]))


@dataclass
class _Response:
    faults: list[str] = field(default_factory=list)
    created: bool = False
    ended: str | None = None
    error: bool = False
    number: int | None = None
    open: dict[str, str] = field(default_factory=dict)
    """Item -> its kind, of those that were added and are not done."""
    items: list[str] = field(default_factory=list)
    """All, in the order in which they were added."""
    said: dict[str, str] = field(default_factory=dict)
    """Item -> what its deltas add up to: text, or arguments."""
    astray: bool = False
    """A delta went to no item, so that the others do not add up."""
    final: dict[str, Any] = field(default_factory=dict)

    def take(self, name: str | None, data: str) -> None:
        event = object_of(data)
        if event is None:
            if data != "[DONE]":  # beyond the protocol, and harmless
                self.faults.append(f"an event is not JSON: {data[:40]}")
            return
        kind = str(event.get("type"))
        if name is not None and name != kind:
            self.faults.append(f"the event {name} says that it is {kind}")
        if self.ended is not None:
            self.faults.append(f"{kind} after {self.ended}")
            return
        if kind == "error":
            self.error = True
            return
        if kind == "response.created":
            if self.created:
                self.faults.append("a second response.created")
        elif not self.created:
            self.faults.append(f"{kind} before response.created")
        self.created = True  # told once
        self._count(event)
        self._take(kind, event)

    def _count(self, event: dict[str, Any]) -> None:
        number = event.get("sequence_number")
        if not isinstance(number, int):
            self.faults.append("events have no sequence_number")
        elif self.number is not None and number <= self.number:
            self.faults.append(f"sequence_number {number} after {self.number}")
        self.number = number if isinstance(number, int) else self.number

    def _take(self, kind: str, event: dict[str, Any]) -> None:
        if kind.startswith(_OF_ITEMS) and not isinstance(event.get("output_index"), int):
            self.faults.append("events of items have no output_index")
        if kind == "response.output_item.added":
            self._added(event)
        elif kind in _PIECES:
            self._piece(kind, event)
        elif kind == "response.output_text.done":
            if not self.astray and event.get("text") != self.said.get(_item(event), ""):
                self.faults.append("the text that is done is not what its deltas say")
        elif kind == "response.output_item.done":
            self._done(event)
        elif kind in _ENDS:
            self.ended, self.final = kind, event.get("response") or {}

    def _added(self, event: dict[str, Any]) -> None:
        output_item = event.get("item") or {}
        name, index = str(output_item.get("id")), event.get("output_index")
        if self.open:
            self.faults.append("an item is added before the one before it is done")
        if isinstance(index, int) and index != len(self.items):
            self.faults.append(f"item {index} where item {len(self.items)} is next")
        self.items.append(name)
        self.open[name] = str(output_item.get("type"))

    def _piece(self, kind: str, event: dict[str, Any]) -> None:
        name = _item(event)
        if name not in self.open:
            self.faults.append("a delta for an item that is not open")
            self.astray = True
        elif self.open[name] != _PIECES[kind]:
            self.faults.append(f"a {kind} in an item of {self.open[name]}")
        self.said[name] = self.said.get(name, "") + str(event.get("delta") or "")

    def _done(self, event: dict[str, Any]) -> None:
        output_item = event.get("item") or {}
        name = str(output_item.get("id"))
        if self.open.pop(name, None) is None:
            self.faults.append("an item is done that is not open")
        if output_item.get("type") == "function_call":
            if object_of(str(output_item.get("arguments"))) is None:
                self.faults.append("the arguments of a function call are not JSON")
            elif not self.astray and output_item.get("arguments") != self.said.get(name, output_item.get("arguments")):
                self.faults.append("the arguments that are done are not what their deltas say")

    def missing(self) -> Iterator[str]:
        if self.error or self.ended == "response.failed":
            if self.error and self.ended == "response.completed":
                yield "response.completed after an error, as if all were well"
            return
        if self.open:
            yield "an item is never done"
        if self.ended is None:
            yield "no response.completed"
            return
        status = self.ended.removeprefix("response.")
        if self.final.get("status") != status:
            yield f"{self.ended} says that its status is {self.final.get('status')!r}"
        if len(self.final.get("output") or ()) != len(self.items):
            yield "the whole response does not hold the items that were streamed"
        if not isinstance((self.final.get("usage") or {}).get("output_tokens"), int):
            yield f"no usage in {self.ended}"


def _item(event: dict[str, Any]) -> str:
    return str(event.get("item_id"))
