"""Measured steps -> constants, and how far they are off where they have not looked.

Least squares on relative errors, weighed down where a row is far off, each constant within what hardware can do.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from statistics import median
from typing import Protocol, TypeVar

from upright.base.errors import UprightError
from upright.facts.catalog.rows.speed import Constants, Errors
from upright.planning.speed.decode import Amount, coefficient
from upright.planning.speed.spread import OUTSIDE, SourceSpread, SpeedMiss, interval, spread

# No kernel reads memory faster than this share of its bandwidth: a fit that says so hides another term.
MOST_EFFICIENCY = 0.87
# From experts that are asked alike to a router whose second favourite is asked half as often as its first.
SKEWS = tuple(step / 5 for step in range(13))
# One-shot starts are not among them: no decode step tells them from the fixed time of a layer.
FITTED = frozenset({
    "layer_us", "weight_efficiency", "expert_skew", "cache_efficiency", "one_shot_gb_s", "hop_us", "collective_gb_s",
    "exchange_us", "grouped_efficiency", "fp4_efficiency", "fp4_layer_us", "indexer_us",
})  # fmt: skip
PROMPT = frozenset(
    {"ubatch_layer_us", "compute_efficiency", "attention_efficiency", "prompt_gb_s", "prompt_socket_gb_s"}
)
_ROUNDS = 6
_LEAST_US, _NO_LIMIT = 1e-3, 1e-9
_FLOOR = 0.02


class Sample(Protocol):
    """One measured cell."""

    @property
    def id(self) -> str: ...
    @property
    def batch(self) -> int: ...
    @property
    def tokens(self) -> float:
        """Made or read in `seconds`."""

    @property
    def tokens_per_second(self) -> float: ...
    def amounts(self, skew: float) -> Iterable[Amount]: ...


S = TypeVar("S", bound=Sample)


def predict(sample: Sample, constants: Constants) -> float:
    """Tokens a second of all requests together."""
    return sample.tokens / seconds(sample, constants)


def seconds(sample: Sample, constants: Constants) -> float:
    """Of one step, or of a prompt."""
    amounts = sample.amounts(constants.expert_skew)
    return sum(amount.amount * coefficient(constants, amount.constant) for amount in amounts)


def fit(samples: Sequence[Sample], start: Constants, only: Collection[str] = FITTED) -> Constants:
    """The constants that explain the samples; others, and those that no sample tells, stay as they were."""
    if not samples:
        raise UprightError("nothing to fit: no measurement")
    several = "expert_skew" in only and len({sample.batch for sample in samples}) > 1
    fitted = [_fit_at(samples, start, only, skew) for skew in (SKEWS if several else (start.expert_skew,))]
    return min(fitted, key=lambda candidate: _loss(samples, candidate))


def leave_out(
    samples: Sequence[S], start: Constants, key: Callable[[S], str], only: Collection[str] = FITTED
) -> tuple[tuple[S, float], ...]:
    """Every sample with its relative error by a fit on the samples with another key."""
    misses: list[tuple[S, float]] = []
    for held_out in dict.fromkeys(key(sample) for sample in samples):
        constants = fit([sample for sample in samples if key(sample) != held_out], start, only)
        misses += [(sample, miss(sample, constants)) for sample in samples if key(sample) == held_out]
    return tuple(misses)


def miss(sample: Sample, constants: Constants) -> float:
    return predict(sample, constants) / sample.tokens_per_second - 1


def errors(
    misses: Sequence[SpeedMiss],
    how: str,
    like: Sequence[SourceSpread] = (),
    *,
    outside: float = OUTSIDE,
    borrowed: bool = False,
) -> Errors:
    """Of runs that a fit has not seen; `like` are the spreads of rows of the kind, for one with few sources."""
    sizes = sorted(abs(missed.off) for missed in misses)
    low, high = interval(spread(misses), like, outside, borrowed=borrowed)
    return Errors(
        median=round(median(sizes), 3),
        ninth=round(_quantile(sizes, 0.9), 3),
        low=round(low, 3),
        high=round(high, 3),
        rows=len(sizes),
        how=how,
    )


def _quantile(ordered: Sequence[float], share: float) -> float:
    place = share * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])


def _loss(samples: Sequence[Sample], constants: Constants) -> float:
    return sum(min(abs(miss(sample, constants)), 0.5) for sample in samples)


def _fit_at(samples: Sequence[Sample], start: Constants, only: Collection[str], skew: float) -> Constants:
    names, rows, known = _system(samples, start, only, skew)
    if not names:
        return start
    seconds = [sample.tokens / sample.tokens_per_second for sample in samples]
    target = [whole - part for whole, part in zip(seconds, known, strict=True)]
    floors = [_least(name) for name in names]
    weights = [1.0] * len(samples)
    solved: list[float] = []
    for _ in range(_ROUNDS):
        scale = [weight / whole for weight, whole in zip(weights, seconds, strict=True)]
        solved = _bounded(rows, target, scale, floors)
        for index, whole in enumerate(seconds):
            off = sum(a * x for a, x in zip(rows[index], solved, strict=True)) - target[index]
            weights[index] = max(abs(off) / whole, _FLOOR) ** -0.5
    values = {name: _value(name, unit_cost) for name, unit_cost in zip(names, solved, strict=True)}
    return start.model_copy(update={**values, "expert_skew": skew})


def _system(
    samples: Sequence[Sample], start: Constants, only: Collection[str], skew: float
) -> tuple[list[str], list[list[float]], list[float]]:
    """One column for each constant that is fitted, and the seconds that the others take."""
    table: list[dict[str, float]] = []
    for sample in samples:
        line: dict[str, float] = {}
        for sample_amount in sample.amounts(skew):
            line[sample_amount.constant] = line.get(sample_amount.constant, 0.0) + sample_amount.amount
        table.append(line)
    names = sorted({name for line in table for name, amount in line.items() if amount and name in only})
    known = [
        sum(amount * coefficient(start, name) for name, amount in line.items() if name not in names) for line in table
    ]
    return names, [[line.get(name, 0.0) * _unit(name) for name in names] for line in table], known


def _least(name: str) -> float:
    """What was measured to be brought can be brought: only of a theoretical bandwidth something is always lost."""
    if name == "host_measured_efficiency":
        return 1.0
    return 1 / MOST_EFFICIENCY if name.endswith("_efficiency") else 0.0


def _unit(name: str) -> float:
    """Keeps the columns of like size: microseconds, nanoseconds a byte, seconds."""
    return 1e-6 if name.endswith("_us") else 1e-9 if name.endswith("_gb_s") else 1.0


def _value(name: str, solved: float) -> float:
    """What costs nothing has no time, or no limit that matters: as it was it would be counted beside the others."""
    return max(solved, _LEAST_US) if name.endswith("_us") else 1 / max(solved, _NO_LIMIT)


def _bounded(
    rows: Sequence[Sequence[float]], target: Sequence[float], scale: Sequence[float], floors: Sequence[float]
) -> list[float]:
    """Least squares with a floor for each unknown: what would go below is held there, and let go when it would rise."""
    size = len(floors)
    matrix = [[0.0] * size for _ in range(size)]
    right = [0.0] * size
    for row, wanted, factor in zip(rows, target, scale, strict=True):
        square = factor * factor
        for i in range(size):
            if row[i]:
                right[i] += square * row[i] * wanted
                for j in range(size):
                    matrix[i][j] += square * row[i] * row[j]
    held: set[int] = set()
    solution = list(floors)
    for _ in range(8 * size):
        free = [index for index in range(size) if index not in held]
        solved = solve(
            [[matrix[i][j] for j in free] for i in free],
            [right[i] - sum(matrix[i][j] * floors[j] for j in held) for i in free],
        )
        solution = list(floors)
        for index, estimate in zip(free, solved, strict=True):
            solution[index] = estimate
        below = [index for index in free if solution[index] < floors[index] - 1e-12]
        if below:
            held.add(min(below, key=lambda index: solution[index] - floors[index]))
            continue
        pulls = {
            index: right[index] - sum(m * x for m, x in zip(matrix[index], solution, strict=True)) for index in held
        }
        rising = [index for index, pull in pulls.items() if pull > 1e-9 * (abs(right[index]) + 1e-30)]
        if not rising:
            break
        held.discard(max(rising, key=lambda index: pulls[index]))
    return [max(estimate, floor) for estimate, floor in zip(solution, floors, strict=True)]


def solve(matrix: list[list[float]], right: list[float]) -> list[float]:
    """Gaussian elimination with pivots, a little damped so that two constants that nothing tells apart share."""
    size = len(right)
    lines = [[*row, rhs] for row, rhs in zip(matrix, right, strict=True)]
    for index in range(size):
        lines[index][index] += 1e-9 * (lines[index][index] or 1.0)
    for index in range(size):
        pivot = max(range(index, size), key=lambda row: abs(lines[row][index]))
        lines[index], lines[pivot] = lines[pivot], lines[index]
        for row in range(index + 1, size):
            factor = lines[row][index] / lines[index][index]
            for column in range(index, size + 1):
                lines[row][column] -= factor * lines[index][column]
    solution = [0.0] * size
    for index in reversed(range(size)):
        known = sum(lines[index][column] * solution[column] for column in range(index + 1, size))
        solution[index] = (lines[index][size] - known) / lines[index][index]
    return solution
