"""More memory, more bandwidth, one more GPU or a wish less never make the best way worse, by the rule's own order."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import NamedTuple

import pytest

from upright.facts import catalog
from upright.facts.records.plan import Goal
from upright.planning.choosing.artifacts import releases_of
from upright.planning.choosing.rule import Way, expected
from upright.planning.choosing.table import Table
from upright.planning.requests.library import artifact_choice_for
from upright.planning.requests.plan_arguments import NamedBox, box_named

COUNTS, SIZES_GB, RATES_GB_S = (1, 2, 3, 4, 6, 8), (12, 16, 24, 32, 48, 96, 141, 192), (448, 936, 1792, 3350, 8000)
CONTEXTS, USERS = (None, 16_384, 131_072), (1, 4, 32)


class Asked(NamedTuple):
    """A question, and the same of a better box or with a wish less."""

    model: str
    count: int
    size_gb: int
    rate_gb_s: int
    goal: Goal

    def best(self) -> Way:
        box = box_named(NamedBox(f"{self.count}x {self.size_gb}GB {self.rate_gb_s}GB/s", 256.0, None))
        choice = artifact_choice_for(self.model)
        return Table(box).ways(choice.model, self.goal, choice.choose_from)[0]


def _next(values: tuple[int, ...], value: int) -> int | None:
    return next((more for more in values if more > value), None)


def _better(asked: Asked) -> Iterator[tuple[str, Asked]]:
    if (more := _next(SIZES_GB, asked.size_gb)) is not None:
        yield "more memory", asked._replace(size_gb=more)
    if (more := _next(RATES_GB_S, asked.rate_gb_s)) is not None:
        yield "more bandwidth", asked._replace(rate_gb_s=more)
    yield "one more GPU", asked._replace(count=asked.count + 1)
    goal = asked.goal
    if goal.users > 1 and goal.use != "batch":  # whose speed is that of all users together
        yield "one user", asked._replace(goal=goal.model_copy(update={"users": 1}))
    if goal.context_tokens and goal.context_tokens > 16_384:
        yield "a shorter context", asked._replace(goal=goal.model_copy(update={"context_tokens": 16_384}))
    if goal.minimum_tokens_per_second:
        yield "no least speed", asked._replace(goal=goal.model_copy(update={"minimum_tokens_per_second": None}))


def _drawn(count: int, seed: int) -> Iterator[Asked]:
    models = [name for row in catalog.models() for name in releases_of(row)]
    draw = Random(seed)
    for _ in range(count):
        goal = Goal(
            context_tokens=draw.choice(CONTEXTS),
            users=draw.choice(USERS),
            minimum_tokens_per_second=draw.choice((None, None, 30.0)),
            use=draw.choice(("coding-agent", "chat", "batch")),
        )
        yield Asked(draw.choice(models), draw.choice(COUNTS), draw.choice(SIZES_GB), draw.choice(RATES_GB_S), goal)


def _worse(before: Way, after: Way) -> str | None:
    """What got worse: a step of the rule, or at the same steps a speed below the other's band."""
    if before.plan.fits and not after.plan.fits:
        return f"no longer fits: {after.plan.objections[0].message}"
    if not before.plan.fits or (after.speed is None) != (before.speed is None):
        return None if not before.plan.fits or before.speed is None else "its speed is no longer known"
    if after.order[:2] > before.order[:2] or after.lost > 1 >= before.lost:
        return f"{before.order} became {after.order}"
    larger = after.artifact.tensor_bytes > before.artifact.tensor_bytes or after.lost < before.lost
    if before.speed is not None and after.speed is not None and not larger and expected(after.speed) < before.speed.low:
        return f"{before.expected:g} tok/s became {after.expected:g}"
    return None


def _faults(asked: Asked) -> list[str]:
    before, found = asked.best(), []
    for what, better in _better(asked):
        if worse := _worse(before, better.best()):
            found.append(f"{asked} with {what}: {worse}")
    return found


def test_a_drawn_sample_gets_no_worse() -> None:
    assert [fault for asked in _drawn(4, 0) for fault in _faults(asked)] == []


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(100, 120))
def test_a_larger_sample_gets_no_worse(seed: int) -> None:
    assert [fault for asked in _drawn(15, seed) for fault in _faults(asked)] == []


def test_what_does_not_fit_stands_below_what_does() -> None:
    for asked in _drawn(3, 7):
        box = box_named(NamedBox(f"{asked.count}x {asked.size_gb}GB {asked.rate_gb_s}GB/s", 256.0, None))
        choice = artifact_choice_for(asked.model)
        fits = [way.plan.fits for way in Table(box).ways(choice.model, asked.goal, choice.choose_from, every=True)]
        assert fits == sorted(fits, reverse=True)
