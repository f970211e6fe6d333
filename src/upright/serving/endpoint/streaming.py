"""Puts a streamed response together, as it would have been in one piece."""

from __future__ import annotations

from typing import Any

from upright.base import bounds

_PREFIX = "data:"


class Assembly:
    """Takes server-sent lines one by one; what never came is absent from the response."""

    def __init__(self) -> None:
        self.cut = False
        """The connection ended before the stream said so."""
        self._head: dict[str, Any] = {}
        self._message: dict[str, Any] = {}
        self._calls: dict[int, dict[str, Any]] = {}
        self._logprobs: list[Any] = []
        self._finish: str | None = None
        self._done = False
        self._broken: str | None = None
        self._first_stranger: str | None = None
        self._events = 0

    @property
    def stranger(self) -> str | None:
        """The beginning of what came instead of a stream; None if there was an event, or nothing at all."""
        return None if self._events else self._first_stranger

    def take(self, line: str) -> bool:
        """True if the line carried a piece of the answer."""
        if not line.startswith(_PREFIX):
            self._first_stranger = self._first_stranger or line.strip()[:200] or None
            return False
        self._events += 1
        payload = line[len(_PREFIX) :].strip()
        if payload == "[DONE]":
            self._done = True
            return False
        try:
            return self._take_chunk(bounds.parse_peer_json(payload))
        except (ValueError, TypeError, AttributeError, OverflowError, bounds.ExceededError):
            self._broken = self._broken or payload[:200]
            return False

    def response(self) -> dict[str, Any]:
        message = dict(self._message)
        if self._calls:
            message["tool_calls"] = [self._calls[index] for index in sorted(self._calls)]
        choice: dict[str, Any] = {"index": 0, "message": message, "finish_reason": self._finish}
        if self._logprobs:
            choice["logprobs"] = {"content": self._logprobs}
        whole = {**self._head, "choices": [choice], "stream": {"done": self._done, "cut": self.cut}}
        return {**whole, "broken_chunk": self._broken} if self._broken is not None else whole

    def _take_chunk(self, chunk: Any) -> bool:
        if not isinstance(chunk, dict):
            return False
        self._head |= {name: entry for name, entry in chunk.items() if name != "choices" and entry is not None}
        choices = chunk.get("choices")
        carried = [self._take_choice(choice) for choice in choices or () if isinstance(choice, dict)]
        return any(carried)

    def _take_choice(self, choice: dict[str, Any]) -> bool:
        self._finish = choice.get("finish_reason") or self._finish
        self._logprobs += (choice.get("logprobs") or {}).get("content") or []
        delta = choice.get("delta") or {}
        carried = False
        for name in ("content", "reasoning_content", "reasoning"):
            if isinstance(piece := delta.get(name), str) and piece:
                self._message[name] = self._message.get(name, "") + piece
                carried = True
        if role := delta.get("role"):
            self._message["role"] = role
        for call in delta.get("tool_calls") or ():
            self._take_call(call)
            carried = True
        return carried

    def _take_call(self, piece: dict[str, Any]) -> None:
        empty = {"id": None, "type": "function", "function": {"name": "", "arguments": ""}}
        call = self._calls.setdefault(int(piece.get("index") or 0), empty)
        call["id"] = piece.get("id") or call["id"]
        function = piece.get("function") or {}
        call["function"]["name"] += function.get("name") or ""
        call["function"]["arguments"] += function.get("arguments") or ""
