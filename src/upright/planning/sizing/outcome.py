"""What the users of a simulated fleet saw."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field

_LOG_STEP = math.log(1.02)
"""Neighbouring bins differ by 2 %, so that a quantile is off by 1 % at most."""
_SMALLEST = 1e-6


class Histogram:
    """Counts by bins of equal ratio; two can be added, whoever filled them."""

    __slots__ = ("bins", "count", "total")

    def __init__(self) -> None:
        self.bins: Counter[int] = Counter()
        self.count = 0
        self.total = 0.0

    def add(self, value: float) -> None:
        self.bins[int(math.log(value if value > _SMALLEST else _SMALLEST) // _LOG_STEP)] += 1
        self.count += 1
        self.total += value

    def merge(self, other: Histogram) -> None:
        self.bins.update(other.bins)
        self.count += other.count
        self.total += other.total

    @property
    def mean(self) -> float | None:
        return self.total / self.count if self.count else None

    def quantile(self, share: float) -> float | None:
        """The value that this share of all is below; None of nothing."""
        if not self.count:
            return None
        wanted, seen = share * self.count, 0
        for place in sorted(self.bins):
            seen += self.bins[place]
            if seen >= wanted:
                return math.exp((place + 0.5) * _LOG_STEP)
        raise AssertionError("counts of bins are the count")


@dataclass
class SimulationOutcome:
    """Turns that were asked after the warm-up and answered before the end."""

    boxes: int = 0
    simulated_seconds: float = 0.0
    first_token_seconds: Histogram = field(default_factory=Histogram)
    tokens_per_second: Histogram = field(default_factory=Histogram)
    """Of one stream, after its first token."""
    turns: int = 0
    answered_tokens: int = 0
    prompt_tokens: int = 0
    reused_tokens: int = 0
    """Prompt tokens that a cache still held."""
    reread_tokens: int = 0
    """Prompt tokens that had been read before, and were dropped since or are on another box."""
    waited_for_room: int = 0
    """Turns that waited because the cache was full."""
    waited_for_stream: int = 0
    """Turns that waited because the engine ran as many as it can."""
    answer_seconds: float = 0.0
    """From being asked to the last token, over all turns."""
    queued_seconds: float = 0.0
    """From being asked to being admitted, over all turns."""
    cut: int = 0
    """Streams that a failing box cut; they are asked again."""
    failures: int = 0
    busy_seconds: float = 0.0
    """Box seconds with something to do."""
    last_seconds: float = 0.0
    """When the last of these answers ended."""
    events: int = 0
    sent_by_box: Counter[int] = field(default_factory=Counter)
    """Turns that each box was sent."""

    def merge(self, other: SimulationOutcome) -> None:
        """Another part of the same fleet over the same time."""
        self.first_token_seconds.merge(other.first_token_seconds)
        self.tokens_per_second.merge(other.tokens_per_second)
        self.simulated_seconds = max(self.simulated_seconds, other.simulated_seconds)
        self.last_seconds = max(self.last_seconds, other.last_seconds)
        self.sent_by_box.update(other.sent_by_box)
        for name in _ADDED:
            setattr(self, name, getattr(self, name) + getattr(other, name))

    @property
    def answered_tokens_per_second(self) -> float:
        return self.answered_tokens / self.simulated_seconds if self.simulated_seconds else 0.0

    @property
    def busy(self) -> float:
        """The share of time that a box has something to do."""
        return self.busy_seconds / (self.boxes * self.simulated_seconds) if self.boxes else 0.0

    @property
    def reused(self) -> float | None:
        return self.reused_tokens / self.prompt_tokens if self.prompt_tokens else None


_ADDED = (
    "boxes", "turns", "answered_tokens", "prompt_tokens", "reused_tokens", "reread_tokens", "waited_for_room",
    "waited_for_stream", "answer_seconds", "queued_seconds", "cut", "failures", "busy_seconds", "events",
)  # fmt: skip
