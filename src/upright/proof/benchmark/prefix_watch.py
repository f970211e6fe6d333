"""Where a client's prompts depart from what the engine holds, and how much of them it found in its cache.

A prefix cache finds a prompt as far as it is the same as an earlier one. A client that changes what it said before has
the engine read everything from there on again: the first such character is told, and the setting that does it if known.
"""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from upright.proof.benchmark.trace_recorder import without_marks

_KEPT = 8
_MOST_KEPT_CHARACTERS = 64_000_000
_OWN_WORDS = "user"
"""Whoever edits their own last words has the rest read again by intent."""
_CAUSES = {
    "x-anthropic-billing-header": (
        "CLAUDE_CODE_ATTRIBUTION_HEADER=0 leaves it out, as upright connect --client claude-code has it"
    ),
}
"""What clients write into their prompts and change, by how it begins; and the setting that does it."""


@dataclass(frozen=True)
class _Part:
    name: str
    text: str
    role: str = ""


@dataclass(frozen=True)
class Departure:
    """A prompt that is not as far the same as an earlier one as it could be."""

    part: str
    character: int
    """The first that differs, counted from 0 in its part."""
    lost_characters: int
    """Of the earlier prompt, from there on."""
    cause: str | None

    def __str__(self) -> str:
        told = (
            f"its prompt departs from an earlier one at character {self.character:,} of {self.part}: "
            f"{self.lost_characters:,} characters from there on are not found in the cache"
        )
        return f"{told}. That is {self.cause}; {_CAUSES[self.cause]}" if self.cause else told


@dataclass(eq=False)
class PrefixWatch:
    """Hears of every prompt when it is sent and when it is answered, from any thread."""

    tell: Callable[[str], None]
    _earlier: deque[tuple[_Part, ...]] = field(default_factory=deque)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _requests: int = 0
    _prompt_tokens: int = 0
    _cached_tokens: int = 0

    def began(self, body: dict[str, Any]) -> Departure | None:
        """None where a cache finds all that it can."""
        parts = _parts(body)
        with self._lock:
            before = max(self._earlier, key=lambda one: _likeness(one, parts), default=None)
            self._earlier.append(parts)
            while len(self._earlier) > _KEPT or (len(self._earlier) > 1 and self._characters > _MOST_KEPT_CHARACTERS):
                self._earlier.popleft()
        return _departure(before, parts) if before is not None else None

    def ended(self, departure: Departure | None, prompt: int, cached: int) -> None:
        """`prompt` and `cached`: tokens, as the engine counted them."""
        with self._lock:
            self._requests += 1
            self._prompt_tokens += prompt
            self._cached_tokens += cached
            number = self._requests
        if departure is not None:
            self.tell(f"request {number}: {cached:,} of {prompt:,} tokens were cached; {departure}")

    def summary(self) -> str | None:
        """None before an engine counted any."""
        if not self._prompt_tokens:
            return None
        share = self._cached_tokens / self._prompt_tokens
        return f"{self._cached_tokens:,} of {self._prompt_tokens:,} prompt tokens ({share:.0%}) came from the cache"

    @property
    def _characters(self) -> int:
        return sum(len(part.text) for prompt in self._earlier for part in prompt)


def _parts(body: dict[str, Any]) -> tuple[_Part, ...]:
    """In the order in which a template writes them."""
    parts = []
    if tools := body.get("tools"):
        parts.append(_Part("the tools", _text(tools)))
    system = [body[name] for name in ("system", "instructions") if body.get(name)]
    spoken = body.get("messages", body.get("input", body.get("prompt")))
    messages = list(spoken) if isinstance(spoken, list) else [spoken] if spoken else []
    while messages and _role(messages[0]) in ("system", "developer"):
        system.append(messages.pop(0))
    if system:
        parts.append(_Part("the system prompt", "".join(map(_text, system))))
    parts += [
        _Part(f"message {number}", _text(message), _role(message)) for number, message in enumerate(messages, start=1)
    ]
    return tuple(parts)


def _role(message: Any) -> str:
    """`tool` for what a tool gave back, whoever's name it bears."""
    if not isinstance(message, dict):
        return _OWN_WORDS
    content = message.get("content")
    if isinstance(content, list) and any(isinstance(one, dict) and one.get("type") == "tool_result" for one in content):
        return "tool"
    return str(message.get("role", message.get("type", "")))


def _text(piece: Any) -> str:
    """What of it is read: words as they are, anything else as JSON, without marks that no template writes."""
    if isinstance(piece, str):
        return piece
    if isinstance(piece, dict):
        if isinstance(piece.get("text"), str):
            return str(piece["text"])
        if set(piece) <= {"role", "content", "type"} and piece.get("content"):
            return _text(piece["content"])
    if isinstance(piece, list) and all(isinstance(one, dict) and isinstance(one.get("text"), str) for one in piece):
        return "".join(map(_text, piece))
    return json.dumps(without_marks(piece), ensure_ascii=False)


def _likeness(one: Sequence[_Part], other: Sequence[_Part]) -> tuple[int, int]:
    """Whole parts that both begin with, and characters of the next."""
    whole = _alike(one, other)
    return whole, _alike(one[whole].text, other[whole].text) if whole < min(len(one), len(other)) else 0


def _alike(one: Sequence[object], other: Sequence[object]) -> int:
    """How many of what they begin with are the same."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((place for place, (mine, theirs) in pairs if mine != theirs), min(len(one), len(other)))


def _departure(before: Sequence[_Part], now: Sequence[_Part]) -> Departure | None:
    whole, character = _likeness(before, now)
    if whole == min(len(before), len(now)) or _is_meant(before, now, whole):
        return None
    lost = sum(len(part.text) for part in before[whole:]) - character
    if not lost:
        return None
    changed = now[whole]
    line = changed.text[changed.text.rfind("\n", 0, character) + 1 :]
    return Departure(changed.name, character, lost, next((cause for cause in _CAUSES if line.startswith(cause)), None))


def _is_meant(before: Sequence[_Part], now: Sequence[_Part], whole: int) -> bool:
    """Whether it is another task, another kind of agent or words that a person edited, rather than the same again."""
    was, changed = before[whole], now[whole]
    if was.name != changed.name or was.name == "message 1":
        return True
    if changed.role:
        after = before[whole + 1 :]
        return changed.role == _OWN_WORDS and not (after and after == now[whole + 1 : len(before)])
    alike = _alike(was.text, changed.text) + _alike(was.text[::-1], changed.text[::-1])
    return alike < min(len(was.text), len(changed.text)) / 2
