"""Held against the tables of Student's t, and against draws whose truth is known."""

from __future__ import annotations

import math
import random

import pytest

from upright.facts.records.spreads import spread_of
from upright.proof.benchmark.load.tally import Buckets
from upright.proof.benchmark.statistics import _t, _upper_tail, mean, paired, unpaired

TABLE = [(1, 12.706), (2, 4.303), (4, 2.776), (9, 2.262), (30, 2.042), (1000, 1.962)]


@pytest.mark.parametrize(("freedom", "value"), TABLE)
def test_students_t_is_that_of_the_tables(freedom: int, value: float):
    assert _t(freedom) == pytest.approx(value, abs=6e-4)
    assert _upper_tail(value, freedom) == pytest.approx(0.025, abs=2e-5)


def test_an_interval_holds_the_truth_95_times_in_100():
    rng = random.Random(1)
    held = 0
    for _ in range(1000):
        found = mean([rng.gauss(10, 2) for _ in range(4)])
        held += found.low <= 10 <= found.high
    assert 930 <= held <= 970


def test_a_single_value_has_no_interval():
    assert mean([3.0]).low is None
    assert mean([]) is None
    assert not paired([1.0], [2.0]).sure
    assert paired([1.0], [2.0]).factor == 2


def test_pairs_see_a_difference_that_drift_hides():
    """Every pair differs by 5 %, while the machine gets slower and slower."""
    a = [100 * 0.8**step for step in range(5)]
    b = [value * 1.05 * (1 + 0.002 * (-1) ** step) for step, value in enumerate(a)]
    assert paired(a, b).sure
    assert paired(a, b).factor == pytest.approx(1.05, rel=0.002)
    assert not unpaired(a, b).sure


def test_a_difference_is_rarely_found_where_there_is_none():
    rng = random.Random(2)
    draws = [[math.exp(rng.gauss(0, 0.1)) for _ in range(8)] for _ in range(500)]
    sure = sum(unpaired(values[:4], values[4:]).sure for values in draws)
    assert sure <= 40  # 5 % of 500 is 25


def test_equal_values_are_equal():
    found = unpaired([2.0, 2.0], [2.0, 2.0])
    assert (found.factor, found.chance, found.sure) == (1.0, 1.0, False)
    assert unpaired([2.0, 2.0], [3.0, 3.0]).sure


def test_buckets_are_exact_in_the_mean_and_within_one_percent_in_the_quantiles():
    rng = random.Random(3)
    times, gaps = [0.0], []
    for _ in range(5000):
        gaps.append(rng.lognormvariate(-4, 1))
        times.append(times[-1] + gaps[-1])
    buckets = Buckets()
    buckets.add_between(times)
    found, exact = buckets.spread(), spread_of(gaps)
    assert found.mean == pytest.approx(exact.mean)
    assert (found.low, found.high) == pytest.approx((exact.low, exact.high))
    for name in ("p50", "p90", "p99"):
        assert getattr(found, name) == pytest.approx(getattr(exact, name), rel=0.012)
    assert len(buckets.counts) < 2500
