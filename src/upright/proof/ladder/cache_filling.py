"""Fills the KV cache over 90 % and keeps it so while a question is answered.

How full it is, is the engine's own word: its metrics, or llama.cpp's slots. No word, no verdict.
"""

from __future__ import annotations

import math
import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from upright.base.errors import EndpointError
from upright.proof.ladder.long_text import sentence
from upright.proof.ladder.rung import ProofContext
from upright.serving.endpoint.client import Endpoint
from upright.serving.endpoint.guards.token_counts import tokenizer_count
from upright.serving.endpoint.metrics import read_metrics
from upright.serving.endpoint.slots import read_slots

FULL = 0.9
"""Share of the cache that counts as full."""
MOST_FILLERS = 32
"""Parallel requests that are tried to fill it."""
_AIM = 0.95
_LOOK_SECONDS = 0.1
_HELD_SHARE = 0.97
"""How much of its context an other request fills by its prompt; the rest is what it goes on writing."""
_UNCOUNTED_SHARE = 0.92
"""Of that, where the engine's tokenizer cannot be asked: a sentence's cost is an average, and too long is refused."""
_ENDING_TOKENS = 8


@dataclass(frozen=True)
class CacheUsage:
    """How full the cache is, from 0 to 1."""

    share: float
    """All of it."""
    largest: float
    """What one request holds of it at most: all of it, where the engine does not tell requests apart."""
    slots: int | None = None
    """Requests that it has room for at once; None where they share a pool."""


def cache_usage(endpoint: Endpoint) -> CacheUsage | None:
    """How full the cache is now; None if the engine does not say."""
    with suppress(EndpointError):
        usage = read_metrics(endpoint.text("/metrics")).kv_usage
        if usage is not None:
            return CacheUsage(usage, usage)
    try:
        slots = read_slots(endpoint.json_list("/slots"))
    except EndpointError:
        return None
    if slots.usage is None:
        return None
    return CacheUsage(slots.usage, max(slots.held_tokens) / slots.room_tokens, len(slots.held_tokens))


class CacheGauge:
    """Watches how full the cache is while a block runs; the fullest moment counts."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.peak: float | None = None
        self.largest = 0.0
        self.slots: int | None = None
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
            self.peak = max(self.peak or 0.0, usage.share)
            self.largest, self.slots = max(self.largest, usage.largest), usage.slots
        return usage is not None


def fillers_needed(own: float, whole: float, slots: int | None) -> int:
    """How many requests of a `whole` context fill what one that holds `own` leaves; never more than have a slot."""
    needed = math.ceil((_AIM - own) / (_HELD_SHARE * whole))
    return needed if slots is None else min(needed, slots - 1)


def filler_shares(count: int, own: float, whole: float) -> tuple[float, ...]:
    """How much of its context each of them fills: just enough first, then as much as it can hold."""
    if not count:
        return ()
    return min(_HELD_SHARE, (_AIM - own) / (count * whole)), _HELD_SHARE


@contextmanager
def filler_requests(
    stand: ProofContext, count: int, share: float, context_tokens: int, patience_seconds: float
) -> Iterator[int]:
    """That many requests, each holding its part of the cache; yields how many really began."""
    stop, begun = threading.Event(), [threading.Event() for _ in range(count)]
    threads = [
        threading.Thread(target=_hold, args=(stand, number, share, context_tokens, stop, begun[number]), daemon=True)
        for number in range(count)
    ]
    for thread in threads:
        thread.start()
    try:
        yield sum(event.wait(patience_seconds) for event in begun)
    finally:
        stop.set()
        for thread in threads:
            thread.join(timeout=30)


def _hold(
    stand: ProofContext, number: int, share: float, context_tokens: int, stop: threading.Event, begun: threading.Event
) -> None:
    needles, chance = stand.prompts.needles, random.Random(f"{stand.seed}/{number}")  # noqa: S311 (not a secret)
    assert needles is not None
    sentences: list[str] = []

    def asked(count: int) -> list[dict[str, Any]]:
        while len(sentences) < count:
            sentences.append(sentence(needles, chance))
        return [{"role": "user", "content": f"{needles.lead}{' '.join(sentences[: max(count, 1)])}"}]

    per_sentence, wanted = stand.tokens_per_sentence or 14.0, share * context_tokens
    count = int(wanted / per_sentence)
    counted = tokenizer_count(stand.endpoint, asked(count))
    if counted:
        per_sentence = counted / count
    else:
        wanted *= _UNCOUNTED_SHARE
    messages = asked(int(wanted / per_sentence))
    room = max(int(context_tokens - wanted) - _ENDING_TOKENS, _ENDING_TOKENS)
    stand.endpoint.hold(messages, stop, begun, max_tokens=room, temperature=0, ignore_eos=True)
