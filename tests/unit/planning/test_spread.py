"""Where one more source will lie: sources weigh alike, and few of them tell little."""

from __future__ import annotations

import math
import random

import pytest

from upright.base.errors import UprightError
from upright.planning.speed.spread import FEW_SOURCES, OUTSIDE, SpeedMiss, interval, spread, student, together


def drawn(sources: int, cells: int, seed: int, *, between: float = 0.2, within: float = 0.05) -> list[SpeedMiss]:
    """Log-normal: a source is off by as much in each of its cells, and a little by cell."""
    rng = random.Random(seed)
    misses = []
    for source in range(sources):
        centre = rng.gauss(0, between)
        misses += [SpeedMiss(math.expm1(-(centre + rng.gauss(0, within))), f"source {source}") for _ in range(cells)]
    return misses


@pytest.mark.parametrize(("freedom", "quantile"), [(1, 6.314), (2, 2.920), (3, 2.353), (5, 2.015), (30, 1.697)])
def test_students_quantile_is_the_tabulated_one(freedom: int, quantile: float):
    assert student(0.95, freedom) == pytest.approx(quantile, rel=0.005)
    assert student(0.05, freedom) == pytest.approx(-quantile, rel=0.005)


@pytest.mark.parametrize("sources", [FEW_SOURCES, 10, 20])
def test_one_more_source_lies_inside_as_often_as_promised(sources: int):
    """The last of each draw, by a band of the others; percentiles of their cells hold far fewer."""
    inside, tried = 0, 400
    for seed in range(tried):
        misses = drawn(sources + 1, 12, seed)
        last = f"source {sources}"
        low, high = interval(spread([miss for miss in misses if miss.source != last]))
        inside += sum(low <= math.exp(miss.log) <= high for miss in misses if miss.source == last)
    assert inside / (12 * tried) == pytest.approx(1 - OUTSIDE, abs=0.03)


def test_a_hundred_cells_of_one_source_weigh_as_much_as_one_of_another():
    many = [SpeedMiss(0.0, "laboratory")] * 100
    whole, two = (spread([*cells, SpeedMiss(1.0, "neighbour")]) for cells in (many, many[:1]))
    assert interval(whole) == pytest.approx(interval(two))


def test_the_fewer_sources_the_wider():
    widths = []
    for sources in (2, 3, 6, 40):
        low, high = interval(spread([SpeedMiss(0.2 if index % 2 else -1 / 6, f"{index}") for index in range(sources)]))
        widths.append(high / low)
    assert widths == sorted(widths, reverse=True)


def test_few_sources_borrow_the_spread_of_rows_like_theirs():
    own, like = spread(drawn(2, 5, seed=1)), spread(drawn(30, 5, seed=2))
    alone, borrowed = interval(own), interval(own, [like])
    assert borrowed[1] / borrowed[0] < alone[1] / alone[0]
    assert borrowed == pytest.approx((1 / borrowed[1], 1 / borrowed[0]))
    assert interval(like, [own]) == interval(like)


def test_one_source_alone_tells_nothing():
    with pytest.raises(UprightError, match="one source"):
        interval(spread([SpeedMiss(0.1, "a"), SpeedMiss(0.2, "a")]))


def test_sources_of_several_rows_are_one_spread():
    first, second = drawn(4, 3, seed=3), [SpeedMiss(miss.off, f"other {miss.source}") for miss in drawn(5, 3, seed=4)]
    whole, parts = spread([*first, *second]), together([spread(first), spread(second)])
    assert (whole.sources, whole.centre) == (parts.sources, pytest.approx(parts.centre))
    assert whole.squares == pytest.approx(parts.squares)
