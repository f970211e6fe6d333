"""Trends over time, and error counts against a budget, with how sure they are.

A busy machine moves in steps: what matters is not how far a line fits, but that the growth is there in block after
block. So the interval is Student's t over the steps from each block's median to the next.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from upright.proof.benchmark.statistics import Ratio, mean, unpaired

BLOCKS = 12
"""The run is cut into so many; a short one with few points into fewer."""
_LEAST_BLOCKS = 4
LEAST_POINTS = 3
"""In a block, and of a question."""
LEAST_SAMPLES = _LEAST_BLOCKS * LEAST_POINTS
"""Fewer points have no trend."""
CHANCE = 0.01
"""How often a rule may speak of something that is not there."""


@dataclass(frozen=True)
class Trend:
    """What became of a quantity, per second, with its interval."""

    start: float
    end: float
    seconds: float
    """From the middle of the first block to the middle of the last."""
    rate: float
    low: float
    """It grows at least so fast, with 99 % confidence."""
    half: float
    """Growth slower than this could not have been told from none."""
    blocks: tuple[tuple[float, float], ...]
    """(when, median) of each, for a picture."""


def trend(points: Sequence[tuple[float, float]]) -> Trend | None:
    """(seconds, value) in order; None if there are too few to say anything."""
    cut = blocks(points)
    if len(cut) < _LEAST_BLOCKS:
        return None
    middles = [median(at for at, _ in block) for block in cut]
    values = [median(level for _, level in _inner(block)) for block in cut]
    seconds = middles[-1] - middles[0]
    block_seconds = seconds / (len(cut) - 1)
    steps = mean([after - before for before, after in pairwise(values)], tail=CHANCE)
    if steps is None or steps.low is None or block_seconds <= 0:
        return None
    half = (steps.value - steps.low) / block_seconds
    return Trend(
        values[0],
        values[-1],
        seconds,
        steps.value / block_seconds,
        steps.value / block_seconds - half,
        half,
        tuple(zip(middles, values, strict=True)),
    )


def blocks(points: Sequence[tuple[float, float]]) -> list[list[tuple[float, float]]]:
    """Equal spans of time, each with enough points; empty if that cannot be."""
    for count in range(min(BLOCKS, len(points) // LEAST_POINTS), _LEAST_BLOCKS - 1, -1):
        begin, end = points[0][0], points[-1][0]
        cut: list[list[tuple[float, float]]] = [[] for _ in range(count)]
        for at, level in points:
            cut[min(count - 1, int(count * (at - begin) / max(end - begin, 1e-9)))].append((at, level))
        if all(len(block) >= LEAST_POINTS for block in cut):
            return cut
    return []


def _inner(block: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """The middle third: what wanders would else tie each block to the next, and the interval would be too sure."""
    edge = len(block) // 3
    return block[edge : len(block) - edge]


def slowdown(latencies: Iterable[tuple[float, str, float]]) -> Ratio | None:
    """(when, which question, seconds): how many times as long answers take in the last third as in the first.

    Each question is compared with itself, block against block, and counts if it was asked often enough; None if there
    are too few.
    """
    rows = sorted(latencies)
    logs: dict[str, list[float]] = {}
    for _, question, seconds in rows:
        logs.setdefault(question, []).append(math.log(seconds))
    usual = {question: median(values) for question, values in logs.items() if len(values) >= LEAST_POINTS}
    cut = blocks([(at, math.log(seconds) - usual[question]) for at, question, seconds in rows if question in usual])
    third = len(cut) // 3
    if third < 2:
        return None
    levels = [math.exp(median(log_ratio for _, log_ratio in block)) for block in cut]
    return unpaired(levels[:third], levels[-third:])


def exceeds(failures: int, count: int, rate: float) -> bool:
    """Whether so many failures are too many for that rate to be the true one."""
    return failures > 0 and failure_chance(failures, count, rate) < CHANCE


def allowed_failures(count: int, rate: float) -> int:
    """The most failures of so many that do not exceed it."""
    failures = 0
    while not exceeds(failures + 1, count, rate):
        failures += 1
    return failures


def rate_found(count: int, budget: float, confidence: float = 0.95) -> float | None:
    """The smallest true rate that so many requests show to exceed the budget, with that confidence; None if none."""
    needed = allowed_failures(count, budget) + 1
    if needed > count:
        return None
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if failure_chance(needed, count, middle) >= confidence else (middle, high)
    return high


def failure_chance(failures: int, count: int, rate: float) -> float:
    """The chance of so many failures or more (binomial)."""
    below = math.fsum(_exactly(number, count, rate) for number in range(failures))
    return max(0.0, 1.0 - below)


def worse(wrong_before: int, count_before: int, wrong_after: int, count_after: int) -> bool:
    """Whether there are more wrong answers afterwards than chance explains (Fisher's exact test)."""
    wrong, count = wrong_before + wrong_after, count_before + count_after
    chance = math.fsum(
        math.exp(_ways(count_after, after) + _ways(count_before, wrong - after) - _ways(count, wrong))
        for after in range(wrong_after, min(wrong, count_after) + 1)
        if wrong - after <= count_before
    )
    return wrong_after > 0 and chance < CHANCE


def _exactly(number: int, count: int, rate: float) -> float:
    if rate <= 0 or rate >= 1:
        return float(number == (count if rate >= 1 else 0))
    return math.exp(_ways(count, number) + number * math.log(rate) + (count - number) * math.log1p(-rate))


def _ways(count: int, number: int) -> float:
    """The logarithm of the number of ways to choose."""
    return math.lgamma(count + 1) - math.lgamma(number + 1) - math.lgamma(count - number + 1)
