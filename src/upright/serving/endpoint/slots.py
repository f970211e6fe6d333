"""llama.cpp's /slots: how full its cache is, and the tokens of requests that still run. Its metrics have neither."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Slots:
    """One reading of them all."""

    held_tokens: tuple[int, ...]
    """What each slot has in the cache, also after its request: it stays for the next one with the same prefix."""
    room_tokens: int
    """What fits into all of them."""
    decoded_tokens: int
    """Generated so far by requests that have not ended: its counters take them up when they end."""

    @property
    def usage(self) -> float | None:
        """Share of the cache that holds tokens, 0 to 1."""
        return sum(self.held_tokens) / self.room_tokens if self.room_tokens else None


def read_slots(answer: Iterable[Any]) -> Slots:
    slots = [slot for slot in answer if isinstance(slot, dict)]
    return Slots(
        held_tokens=tuple(map(_held, slots)),
        room_tokens=sum(_count(slot, "n_ctx") for slot in slots),
        decoded_tokens=sum(_decoded(slot) for slot in slots if slot.get("is_processing")),
    )


def _held(slot: dict[str, Any]) -> int:
    # Guard: n_prompt_tokens of a running request counts what is not yet processed, and in b11669 its answer too
    if not slot.get("is_processing"):
        return _count(slot, "n_prompt_tokens")
    return _count(slot, "n_prompt_tokens_processed") + _count(slot, "n_prompt_tokens_cache") + _decoded(slot)


def _decoded(slot: dict[str, Any]) -> int:
    following = slot.get("next_token")
    return _count(following[0], "n_decoded") if isinstance(following, list) and following else 0


def _count(holder: dict[str, Any], name: str) -> int:
    return int(holder.get(name) or 0)
