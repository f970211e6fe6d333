"""Failures of the public record, each with its outcome: what `diagnose` makes of them, and of what only looks bad."""

from __future__ import annotations

from tests.failure_board import false_alarms, recorded


def test_what_only_looks_bad_raises_no_alarm():
    assert false_alarms((row["id"], row["excerpt"]) for row in recorded()["negatives"]) == []
