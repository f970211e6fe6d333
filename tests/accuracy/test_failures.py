"""Failures of the public record, each with its outcome: what `diagnose` makes of them, and of what only looks bad."""

from __future__ import annotations

from tests.failure_board import false_alarms, judgements, recorded, thread_judgements, threads
from tests.needed_rows import not_needed


def test_nine_of_ten_are_named_rightly():
    missed = [(each.failure["id"], each.verdict, each.code) for each in judgements() if each.verdict != "right"]
    assert len(missed) <= 0.1 * len(judgements()), missed


def test_next_to_none_is_named_wrongly():
    wrong = [(each.failure["id"], each.code) for each in judgements() if each.verdict in ("wrong", "second")]
    assert len(wrong) <= 0.02 * len(judgements()), wrong


def test_what_only_looks_bad_raises_no_alarm():
    assert false_alarms((row["id"], row["excerpt"]) for row in recorded()["negatives"]) == []


def test_further_threads_are_named_as_their_outcome_says():
    """Rows were written from these threads: what is held here is that none is lost again."""
    assert len({row["source"] for row in threads()}) >= 150
    missed = [(each.failure["id"], each.verdict, each.code) for each in thread_judgements() if each.verdict != "right"]
    assert len(missed) <= 0.04 * len(threads()), missed
    assert [miss for miss in missed if miss[1] == "wrong"] == []


def test_every_row_is_the_only_answer_to_something_that_is_recorded():
    """Or a part of the table, or told beside a log; rows of words need a thread that no other row answers."""
    assert not_needed() == []
