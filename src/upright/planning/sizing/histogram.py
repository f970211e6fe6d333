"""Many positive numbers -> their distribution, in memory that does not grow with them, to a known relative error."""

from __future__ import annotations

import math
from collections import Counter

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
