"""Means and ratios of repeated measurements, with their 95 % intervals.

Student's t throughout: a handful of repeats is what people can afford, and then the normal distribution is too sure.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

ALIKE = 1.10
"""Two figures whose ratio is surely within this factor do not differ in what a person would notice."""
INFORMATIVE_FACTOR = 4.0
"""An interval whose ends are further apart than this factor says nothing, and is not printed."""


@dataclass(frozen=True)
class Mean:
    """A mean and the 95 % interval around it; no interval from a single value."""

    value: float
    low: float | None
    high: float | None
    count: int


@dataclass(frozen=True)
class Ratio:
    """How much greater b is than a, as a factor, with its 95 % interval."""

    factor: float
    low: float | None
    high: float | None
    chance: float | None
    """The chance to see such a difference if there were none (two-sided); None from single values."""

    @property
    def sure(self) -> bool:
        """Whether the interval leaves out "no difference"."""
        return self.low is not None and self.high is not None and not self.low <= 1 <= self.high

    @property
    def alike(self) -> bool:
        """Whether the interval leaves out every difference that would matter; else, if not sure, nobody can tell."""
        return self.low is not None and self.high is not None and self.low >= 1 / ALIKE and self.high <= ALIKE


def is_informative(low: float | None, high: float | None) -> bool:
    """Whether an interval of factors says anything."""
    return low is not None and high is not None and high <= INFORMATIVE_FACTOR * low


def mean(values: Sequence[float], *, tail: float = 0.025) -> Mean | None:
    """`tail` is the chance that the true mean is above the interval, and as much below it."""
    if not values:
        return None
    centre = math.fsum(values) / len(values)
    if len(values) < 2:
        return Mean(centre, None, None, len(values))
    half = _t(len(values) - 1, tail) * math.sqrt(_variance(values) / len(values))
    return Mean(centre, centre - half, centre + half, len(values))


def paired(a: Sequence[float], b: Sequence[float]) -> Ratio:
    """For measurements taken in turns: pair by pair, so that what drifts touches both alike."""
    logs = [math.log(after / before) for before, after in zip(a, b, strict=True)]
    centre = math.fsum(logs) / len(logs)
    if len(logs) < 2:
        return Ratio(math.exp(centre), None, None, None)
    return _ratio(centre, math.sqrt(_variance(logs) / len(logs)), len(logs) - 1)


def unpaired(a: Sequence[float], b: Sequence[float]) -> Ratio:
    """For measurements of two occasions (Welch)."""
    before, after = [math.log(measurement) for measurement in a], [math.log(measurement) for measurement in b]
    centre = math.fsum(after) / len(after) - math.fsum(before) / len(before)
    if len(before) < 2 or len(after) < 2:
        return Ratio(math.exp(centre), None, None, None)
    first, second = _variance(before) / len(before), _variance(after) / len(after)
    if first + second == 0:
        return _ratio(centre, 0.0, len(before) + len(after) - 2)
    freedom = (first + second) ** 2 / (first**2 / (len(before) - 1) + second**2 / (len(after) - 1))
    return _ratio(centre, math.sqrt(first + second), freedom)


def pooled(a: Sequence[float], b: Sequence[float]) -> Ratio:
    """For the same measurement on two occasions, which vary alike: two of each can tell, where Welch needs more."""
    before, after = [math.log(measurement) for measurement in a], [math.log(measurement) for measurement in b]
    centre = math.fsum(after) / len(after) - math.fsum(before) / len(before)
    freedom = len(before) + len(after) - 2
    if freedom < 1:
        return Ratio(math.exp(centre), None, None, None)
    return _ratio(centre, _spread(before, after) * math.sqrt(1 / len(before) + 1 / len(after)), freedom)


def repeats_to_tell(a: Sequence[float], b: Sequence[float], factor: float) -> int | None:
    """How many of each make a difference of that factor sure, as these vary; None beyond a hundred."""
    spread = _spread(*([math.log(measurement) for measurement in values] for values in (a, b)))
    counts = range(2, 101)
    return next((n for n in counts if _t(2 * n - 2) * spread * math.sqrt(2 / n) < math.log(factor)), None)


def _spread(a: Sequence[float], b: Sequence[float]) -> float:
    """The standard deviation that both have."""
    squares = sum(_variance(values) * (len(values) - 1) for values in (a, b) if len(values) > 1)
    return math.sqrt(squares / max(1, len(a) + len(b) - 2))


def _ratio(centre: float, error: float, freedom: float) -> Ratio:
    half = _t(freedom) * error
    chance = (0.0 if centre else 1.0) if error == 0 else 2 * _upper_tail(abs(centre) / error, freedom)
    return Ratio(math.exp(centre), math.exp(centre - half), math.exp(centre + half), chance)


def _variance(values: Sequence[float]) -> float:
    centre = math.fsum(values) / len(values)
    return math.fsum((measurement - centre) ** 2 for measurement in values) / (len(values) - 1)


@cache
def _t(freedom: float, tail: float = 0.025) -> float:
    """The value that Student's t exceeds with that chance, by bisection."""
    low, high = 0.0, 1000.0
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if _upper_tail(middle, freedom) > tail else (low, middle)
    return (low + high) / 2


def _upper_tail(value: float, freedom: float) -> float:
    """P(T > value)."""
    return 0.5 * _incomplete_beta(freedom / 2, 0.5, freedom / (freedom + value * value))


def _incomplete_beta(a: float, b: float, x: float) -> float:
    """The regularised incomplete beta function, by its continued fraction (Lentz)."""
    if x <= 0:
        return 0.0
    if x >= 1:
        return 1.0
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x))
    if x > (a + 1) / (a + b + 2):
        return 1 - front / b * _fraction(b, a, 1 - x)
    return front / a * _fraction(a, b, x)


def _fraction(a: float, b: float, x: float) -> float:
    tiny = 1e-300
    c, d = 1.0, 1 - (a + b) * x / (a + 1)
    d = 1 / (d if abs(d) > tiny else tiny)
    fraction = d
    for m in range(1, 300):
        for term in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1 + term * d
            c = 1 + term / c
            d = 1 / (d if abs(d) > tiny else tiny)
            c = c if abs(c) > tiny else tiny
            fraction *= c * d
        if abs(c * d - 1) < 1e-12:
            break
    return fraction
