"""One request in flight: what has come back so far, and whether it was an answer."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import NamedTuple

from upright.base import bounds, units
from upright.proof.benchmark.load.apis import EventContent
from upright.proof.benchmark.load.requests import Request
from upright.proof.benchmark.load.wire import Events, Response

_MOST_PIECES = 8
"""Of a body that is no stream: enough to quote."""


class Fault(NamedTuple):
    """Why it is no answer."""

    kind: str
    words: str


class Exchange:
    __slots__ = (
        "done", "events", "heard_at", "longest_bytes", "reason", "received_bytes", "request", "response", "sent_at",
        "text", "times", "usage",
    )  # fmt: skip

    def __init__(self, request: Request) -> None:
        self.request = request
        self.response = Response()
        self.events = Events()
        self.sent_at = 0.0
        self.heard_at = 0.0
        """When something came that was worth the wait: a head, a piece of text, its end; no comment, and no blank."""
        self.received_bytes = 0
        self.longest_bytes = bounds.answer_limit_bytes(request.output_tokens)
        self.times = array("d")
        """When each piece of text came."""
        self.text: list[str] = []
        self.usage: dict[str, int] = {}
        self.reason: str | None = None
        self.done = False
        """[DONE], or Anthropic's message_stop."""

    def take(self, data: bytes, now: float, read: Callable[[bytes], EventContent]) -> Fault | None:
        """More bytes; a fault if the server tells of an error inside its stream."""
        self.received_bytes += len(data)
        if self.received_bytes > self.longest_bytes:
            return Fault("too long", f"more than {units.format_size(self.longest_bytes)} for one answer")
        response, before = self.response, self.response.status
        body = response.feed(data)
        if response.status != before and response.status >= 200:
            self.heard_at = now
        if body and response.status == 200 and response.is_stream:
            for event in self.events.feed(body):
                if event == b"[DONE]":
                    self.done = True
                    continue
                told = read(event)
                if told.error is not None:
                    return Fault("error event", told.error)
                self._note(told, now)
        elif body and len(self.text) < _MOST_PIECES:
            self.heard_at = now
            self.text.append(body[:2000].decode(errors="replace"))
        return None

    def _note(self, told: EventContent, now: float) -> None:
        if told.text or told.usage or told.finish_reason is not None:
            self.heard_at = now
        if told.text:
            self.times.append(now)
            if self.request.keep_text:
                self.text.append(told.text)
        if told.finish_reason is not None:
            self.reason = told.finish_reason
        if told.usage:
            self.usage.update(told.usage)

    def fault(self) -> Fault | None:
        """The body is whole: was it an answer?"""
        if self.response.status != 200:
            return Fault(f"HTTP {self.response.status}", "".join(self.text).strip() or "no words")
        if not self.response.is_stream:
            return Fault("no stream", "".join(self.text))
        if self.reason is None:
            return Fault("no finish_reason", f"{len(self.times)} pieces" + (", then [DONE]" if self.done else ""))
        if not self.usage.get("output"):
            return Fault("no usage", "the server did not count its tokens")
        if not self.times:
            return Fault("no text", f"{self.usage['output']} tokens, and not one piece of text")
        return None

    def cut(self) -> Fault:
        """The connection is gone, and the body is not whole."""
        if not self.response.status:
            return Fault("reset", "the connection was closed before an answer")
        return Fault("cut", f"the stream ended after {len(self.times)} pieces, without its end")
