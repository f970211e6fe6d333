"""The cells to measure in a given time: those that tell most of what the constants know least.

The time of a step is a sum of constants times amounts, so the share that a constant has of it is how much the cell
tells of that constant. What is known before are the runs that the row was fitted on, each source once; of a constant
that none of them tells, that it is right within a factor of two. The next cell is the one that, for a second of
measuring, takes most of the uncertainty from all the loads that the engine can be given.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from upright.base.errors import UprightError
from upright.engines import model_settings
from upright.facts.catalog.rows.speed import SpeedRow
from upright.facts.records.plan import Plan
from upright.planning.placement.engine_support import layers_of
from upright.planning.speed.decode import Amount, coefficient
from upright.planning.speed.predict import SpeedCase
from upright.planning.speed.published import fitted_on
from upright.planning.speed.spread import OUTSIDE, student

ANSWER_TOKENS = 128
REQUESTS_EACH = 2
REPEATS = 3
_LEAST_SECONDS = 3.0
# Of the time, for one cell: a fit holds some of them out.
_MOST_SHARE = 1 / 6
MOST_CELLS = 24
_SHORTEST = 256
_ANY_FACTOR = math.log(2) / student(1 - OUTSIDE / 2, 1000)
# How far the median of a cell's repeats lies from itself, at one standard deviation (assumed).
REPEATS_WITHIN = 0.05
# A token of a prompt over a step of decode, where prompts have no figure: a processor reads 8 to 1 of them in a step,
# the fewer the longer the prompt.
_PROMPT_TOKEN = 0.5


@dataclass(frozen=True)
class PlannedCell:
    """One load to measure, and why."""

    users: int
    prompt_tokens: int
    output_tokens: int
    seconds: float
    """About, by the constants as they are, with all repeats."""
    tells: str
    """The constant that it tells most of."""


@dataclass(frozen=True)
class Campaign:
    """Cells in the order in which they are measured, and what they are worth."""

    cells: tuple[PlannedCell, ...]
    uncertain_before: float
    """Standard deviation of decode over all loads that could be measured, as a share."""
    uncertain_after: float
    """The same when these are measured, if cells repeat within `REPEATS_WITHIN`."""

    @property
    def seconds(self) -> float:
        return sum(cell.seconds for cell in self.cells)


@dataclass(frozen=True)
class _Candidate:
    users: int
    prompt_tokens: int
    output_tokens: int
    seconds: float
    shares: dict[str, float]


def campaign(case: SpeedCase, budget_seconds: float, repeats: int = REPEATS) -> Campaign:
    """The better of two: by what a cell tells for its time, and by what it tells."""
    loads = list(_candidates(case, repeats))
    shortest = min(load.seconds for load in loads)
    if shortest > _MOST_SHARE * budget_seconds:
        raise UprightError(
            f"no cell can be measured in {budget_seconds:.0f} s", hint=f"--budget {math.ceil(shortest / _MOST_SHARE)}s"
        )
    made = (_chosen(case.row, loads, budget_seconds, for_its_time=for_its_time) for for_its_time in (True, False))
    return min(made, key=lambda cells: cells.uncertain_after)


def _chosen(row: SpeedRow, loads: Sequence[_Candidate], budget_seconds: float, *, for_its_time: bool) -> Campaign:
    knowledge = _Knowledge(sorted({name for load in loads for name in load.shares}), row)
    before, left = knowledge.uncertainty(loads), budget_seconds
    chosen: list[PlannedCell] = []
    affordable = [load for load in loads if load.seconds <= _MOST_SHARE * budget_seconds]
    while affordable and len(chosen) < MOST_CELLS:
        best = max(affordable, key=lambda load: knowledge.gain(load, loads) / (load.seconds if for_its_time else 1.0))
        tells = knowledge.told_by(best)
        chosen.append(PlannedCell(best.users, best.prompt_tokens, best.output_tokens, best.seconds, tells))
        knowledge.learn(best)
        left -= best.seconds
        affordable = [load for load in affordable if load is not best and load.seconds <= left]
    chosen.sort(key=lambda cell: (cell.prompt_tokens, cell.users))
    return Campaign(tuple(chosen), before, knowledge.uncertainty(loads))


def _candidates(case: SpeedCase, repeats: int) -> Iterator[_Candidate]:
    plan = case.plan
    answer = min(ANSWER_TOKENS, plan.context_tokens // 4)
    for prompt in _prompts(plan.context_tokens - answer):
        for users in _doubling(_most_users(plan, prompt + answer)):
            shares, step = _shares(case.amounts(users, prompt + answer / 2, case.row.constants.expert_skew), case.row)
            once = users * _prompt_seconds(case, prompt, step) + answer * step
            seconds = max(_LEAST_SECONDS, (1 + repeats * REQUESTS_EACH) * once)
            yield _Candidate(users, prompt, answer, seconds, shares)


def _prompts(longest: int) -> list[int]:
    lengths = [_SHORTEST * 4**power for power in range(12) if _SHORTEST * 4**power < 0.7 * longest]
    return [*lengths, longest]


def _doubling(most: int) -> Iterator[int]:
    return (2**power for power in range(12) if 2**power <= most)


def _most_users(plan: Plan, tokens: int) -> int:
    """As many as are answered at once: others would wait, and a cell of those who wait is no cell of so many."""
    if layers_of(plan.engine) is not None:
        return plan.goal.users
    admitted = max(plan.goal.users, model_settings.LEAST_SEQUENCES)
    if plan.memory_fraction is not None:
        admitted = model_settings.sequences(plan)
    return min(admitted, max(1, plan.kv.low_tokens // max(1, tokens)))


def _shares(amounts: Iterable[Amount], row: SpeedRow) -> tuple[dict[str, float], float]:
    """Of each constant in a step's time, and that time."""
    seconds: dict[str, float] = {}
    for amount in amounts:
        if amount.amount:
            spent = amount.amount * coefficient(row.constants, amount.constant)
            seconds[amount.constant] = seconds.get(amount.constant, 0.0) + spent
    step = sum(seconds.values())
    return {name: spent / step for name, spent in seconds.items()}, step


def _prompt_seconds(case: SpeedCase, tokens: int, step: float) -> float:
    amounts = case.prompt_amounts(tokens)
    if amounts is None:
        return tokens * _PROMPT_TOKEN * step
    return sum(amount.amount * coefficient(case.row.constants, amount.constant) for amount in amounts)


class _Knowledge:
    """Covariance of the constants' logarithms, as cells are learned one by one."""

    def __init__(self, names: Sequence[str], row: SpeedRow) -> None:
        self._names = names
        self._covariance = {(a, b): _ANY_FACTOR**2 * (a == b) for a in names for b in names}
        for shares, variance in _published(row):
            self._learn(shares, variance)

    def uncertainty(self, loads: Sequence[_Candidate]) -> float:
        return math.sqrt(sum(self._product(load.shares, load.shares) for load in loads) / len(loads))

    def gain(self, load: _Candidate, loads: Sequence[_Candidate]) -> float:
        """Variance that measuring it would take from all loads."""
        noise = REPEATS_WITHIN**2 + self._product(load.shares, load.shares)
        return sum(self._product(other.shares, load.shares) ** 2 for other in loads) / noise

    def told_by(self, load: _Candidate) -> str:
        return max(load.shares, key=lambda name: self._against(load.shares)[name] ** 2 / self._covariance[name, name])

    def learn(self, load: _Candidate) -> None:
        self._learn(load.shares, REPEATS_WITHIN**2)

    def _learn(self, shares: dict[str, float], variance: float) -> None:
        against = self._against(shares)
        noise = variance + sum(shares.get(name, 0.0) * against[name] for name in self._names)
        for a in self._names:
            for b in self._names:
                self._covariance[a, b] -= against[a] * against[b] / noise

    def _against(self, shares: dict[str, float]) -> dict[str, float]:
        return {a: sum(self._covariance[a, b] * shares.get(b, 0.0) for b in self._names) for a in self._names}

    def _product(self, left: dict[str, float], right: dict[str, float]) -> float:
        against = self._against(right)
        return sum(left.get(name, 0.0) * against[name] for name in self._names)


def _published(row: SpeedRow) -> Iterator[tuple[dict[str, float], float]]:
    """Cells that the row was fitted on, and the variance of each: all cells of a source tell as much as one."""
    if not row.fits or row.errors is None:
        return
    cells = fitted_on(row.id)
    counts = Counter(cell.source for cell in cells)
    spread = math.log(row.errors.high / row.errors.low) / 2 / student(1 - OUTSIDE / 2, 1000)
    for cell in cells:
        shares, _ = _shares(cell.amounts(row.constants.expert_skew), row)
        yield shares, spread**2 * counts[cell.source]
