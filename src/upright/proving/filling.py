"""A cache that is nearly empty -> one that is over 90 % full, kept so while a question is answered.

How full it is, is the engine's own word: its metrics, or llama.cpp's slots. No word, no verdict.
"""

from __future__ import annotations

import math
import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Any, Self

from upright.endpoint.client import Endpoint
from upright.endpoint.metrics import read_metrics
from upright.errors import EndpointError
from upright.proving.long_text import sentence
from upright.proving.rung import Stand

FULL = 0.9
"""Share of the cache that counts as full."""
MOST_OTHERS = 32
"""Parallel requests that are tried to fill it."""
_AIM = 0.95
_LOOK_SECONDS = 0.1
_HELD_SHARE = 0.9
"""How much of its context an other request fills by its prompt; the rest is what it goes on writing."""


def cache_usage(endpoint: Endpoint) -> float | None:
    """How full the cache is now, from 0 to 1; None if the engine does not say."""
    with suppress(EndpointError):
        usage = read_metrics(endpoint.text("/metrics")).kv_usage
        if usage is not None:
            return usage
    try:
        slots = [slot for slot in endpoint.json_list("/slots") if isinstance(slot, dict)]
    except EndpointError:
        return None
    room = sum(int(slot.get("n_ctx") or 0) for slot in slots)
    return sum(map(_slot_tokens, slots)) / room if room else None


class Gauge:
    """Watches how full the cache is while a block runs; the fullest moment counts."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.peak: float | None = None
        self._endpoint, self._stop = endpoint, threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stop.set()
        self._thread.join()
        self._look()

    def _watch(self) -> None:
        while self._look() and not self._stop.wait(_LOOK_SECONDS):
            pass

    def _look(self) -> bool:
        usage = cache_usage(self._endpoint)
        if usage is not None:
            self.peak = max(self.peak or 0.0, usage)
        return usage is not None


def others_needed(usage: float) -> int:
    """How many more requests like the one that took `usage` fill the cache."""
    return math.ceil((_AIM - usage) / (_HELD_SHARE * usage))


def shares(count: int, usage: float) -> tuple[float, ...]:
    """How much of its context each of them fills: just enough first, then as much as it can hold."""
    return min(_HELD_SHARE, (_AIM - usage) / (count * usage)), _HELD_SHARE


@contextmanager
def others(stand: Stand, count: int, share: float, context_tokens: int, patience_seconds: float) -> Iterator[int]:
    """That many requests, each holding its part of the cache; yields how many really began."""
    stop, begun = threading.Event(), [threading.Event() for _ in range(count)]
    threads = [
        threading.Thread(target=_hold, args=(stand, number, share, context_tokens, stop, begun[number]), daemon=True)
        for number in range(count)
    ]
    for thread in threads:
        thread.start()
    try:
        yield sum(each.wait(patience_seconds) for each in begun)
    finally:
        stop.set()
        for thread in threads:
            thread.join(timeout=30)


def _hold(
    stand: Stand, number: int, share: float, context_tokens: int, stop: threading.Event, begun: threading.Event
) -> None:
    needles = stand.prompts.needles
    assert needles is not None
    chance = random.Random(f"{stand.seed}/{number}")  # noqa: S311 (not a secret)
    count = int(share * context_tokens / (stand.tokens_per_sentence or 14))
    text = " ".join(sentence(needles, chance) for _ in range(max(count, 1)))
    messages = [{"role": "user", "content": f"{needles.lead}{text}"}]
    room = max(int((1 - share) * context_tokens) - 64, 16)
    stand.endpoint.hold(messages, stop, begun, max_tokens=room, temperature=0, ignore_eos=True)


def _slot_tokens(slot: dict[str, Any]) -> int:
    """Cells of one llama.cpp slot, also of a finished request: they stay for the next one with the same prefix."""
    following = slot.get("next_token")
    decoded = following[0].get("n_decoded") if isinstance(following, list) and following else 0
    return int(slot.get("n_prompt_tokens") or 0) + int(decoded or 0)
