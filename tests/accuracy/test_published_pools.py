"""Pools that engines printed at start, beside what `upright plan` states for the same settings."""

from __future__ import annotations

import csv
from functools import cache
from statistics import median

from tests.accuracy.published_pools import STATED, Stated, ask, starts

ANSWERED, INSIDE, MEDIAN = 0.80, 0.90, 0.08


@cache
def answers() -> tuple[Stated, ...]:
    return tuple(ask(start) for start in starts())


def pools() -> list[Stated]:
    return [stated for stated in answers() if stated.start.pool_tokens is not None]


def test_four_of_five_pools_are_answered():
    known = [stated for stated in pools() if stated.known]
    assert len(known) / len(pools()) >= ANSWERED


def test_nine_of_ten_lie_inside_the_printed_band():
    known = [stated for stated in pools() if stated.known]
    outside = [stated for stated in known if not stated.inside]
    assert len(outside) / len(known) <= 1 - INSIDE, outside


def test_the_median_error_is_at_most_eight_percent():
    assert median(stated.error for stated in pools() if stated.known) <= MEDIAN


def test_nothing_that_died_is_said_to_fit():
    died = [stated for stated in answers() if stated.start.died]
    assert len(died) >= 10
    assert [stated.start.name for stated in died if stated.known and not stated.objections] == []


def test_a_band_is_an_answer_and_not_everything():
    known = [stated for stated in pools() if stated.known]
    assert median((stated.high - stated.low) / stated.best for stated in known) < 0.5


def test_the_page_claims_no_more_than_the_command_prints():
    with STATED.open(encoding="utf-8", newline="") as opened:
        rows = [row for row in csv.DictReader(opened) if row["low"] and row["measured"]]
    claimed = {row["id"] for row in rows if float(row["low"]) <= float(row["measured"]) <= float(row["high"])}
    assert claimed <= {stated.start.name for stated in pools() if stated.known and stated.inside}
    assert len(rows) <= sum(stated.known for stated in pools())
