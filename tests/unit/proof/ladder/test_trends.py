"""Growth that is there is found; steps, noise and a warm-up that ends are not taken for it."""

from __future__ import annotations

import random

import pytest

from upright.proof.ladder.trends import (
    allowed_failures,
    blocks,
    exceeds,
    failure_chance,
    rate_found,
    slowdown,
    trend,
    worse,
)

Points = list[tuple[float, float]]


def series(rate: float, seed: int, *, noise: float = 0.0, step: float = 0.0, walk: float = 0.0) -> Points:
    """Half a minute of looks, twice a second: a line, noise, a step somewhere, a random walk."""
    chance = random.Random(seed)
    at_step, level, points = chance.uniform(5, 25), 0.0, []
    for look in range(60):
        at = look / 2
        level += chance.gauss(0, walk)
        points.append((at, 100 + rate * at + chance.gauss(0, noise) + (step if at > at_step else 0) + level))
    return points


def grows(points: Points) -> bool:
    found = trend(points)
    assert found is not None
    return found.low > 0


def test_a_steady_growth_is_found_with_its_rate():
    for seed in range(50):
        found = trend(series(2.0, seed, noise=1.0))
        assert found is not None
        assert found.low > 0
        assert found.rate == pytest.approx(2.0, rel=0.2)
        assert found.rate - found.low == pytest.approx(found.half)


@pytest.mark.parametrize("shape", [{"noise": 5.0}, {"step": 50.0, "noise": 1.0}, {"walk": 3.0}])
def test_what_does_not_grow_all_along_is_no_growth(shape: dict[str, float]):
    alarms = sum(grows(series(0.0, seed, **shape)) for seed in range(600))
    assert alarms <= 600 * 0.025, "one in a hundred is what the interval allows"


def test_a_warm_up_that_ends_is_no_growth():
    assert not grows([(at / 2, 100 - 50 * 0.8**at) for at in range(60)])


def test_too_few_looks_say_nothing():
    assert trend([(at, 1.0) for at in range(11)]) is None
    assert blocks([]) == []
    assert len(blocks([(at, 1.0) for at in range(12)])) == 4


def test_a_slowdown_is_told_question_by_question():
    chance = random.Random(1)

    def answers(slower: float) -> list[tuple[float, str, float]]:
        usual = {"short": 0.1, "long": 2.0}
        return [
            (at, name, usual[name] * (1 + slower * at / 300) * chance.lognormvariate(0, 0.1))
            for at in range(300)
            for name in [chance.choice(list(usual))]
        ]

    steady, slower = slowdown(answers(0.0)), slowdown(answers(1.0))
    assert steady is not None
    assert steady.low is not None
    assert steady.low < 1.2
    assert slower is not None
    assert slower.low is not None
    assert slower.low > 1.2
    assert slowdown(answers(0.0)[:12]) is None


def test_the_error_budget_is_a_binomial_bound():
    assert failure_chance(1, 300, 0.01) == pytest.approx(1 - 0.99**300)
    assert not exceeds(0, 300, 0.001)
    assert (allowed_failures(300, 0.001), allowed_failures(1000, 0.001)) == (2, 4)
    assert exceeds(3, 300, 0.001)
    assert failure_chance(3, 300, 0.001) < 0.01 < failure_chance(2, 300, 0.001)
    found = rate_found(1000, 0.001)
    assert found is not None
    assert failure_chance(5, 1000, found) == pytest.approx(0.95)
    assert found < 0.01, "a thousand requests show one percent"
    assert rate_found(0, 0.001) is None


def test_more_wrong_answers_than_chance_explains():
    assert not worse(2, 100, 4, 100)
    assert worse(0, 100, 9, 100)
    assert not worse(9, 100, 0, 100)
    assert not worse(0, 0, 0, 0)
