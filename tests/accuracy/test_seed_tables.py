"""Every throughput table of the five field reports beside the band that `upright plan` prints: inside, or explained."""

from __future__ import annotations

import pytest

from tests.accuracy.seed_tables import TableLine, lines, stated
from upright.facts import catalog

COMPARED = [line for line in lines() if line.rate]


@pytest.mark.parametrize("line", COMPARED, ids=lambda line: line.name)
def test_a_line_is_inside_or_its_cause_is_told(line: TableLine):
    """An explanation that is no longer needed fails as well."""
    band = line.printed()
    shown = f"{band[0]:g} to {band[1]:g}" if band else "not known"
    print(f"\n{line.table}, {line.line}: measured {line.measured:g}, printed {shown}")
    assert line.lies_today() == line.lies
    if line.lies != "inside":
        assert line.cause in stated()["causes"]


def test_what_is_not_compared_says_why():
    for line in lines():
        assert line.rate or line.cause in stated()["causes"], line.name
    for table in stated()["tables"]:
        assert set(table.get("columns", {}).values()) <= set(stated()["causes"])


def test_every_report_has_its_tables_or_says_that_it_has_none():
    reports = {line.report for line in lines()} | set(stated()["without_tables"])
    assert reports == {"000", "001", "002", "003", "004"}
    assert {line.report for line in lines()} == set(stated()["sources"])


def test_lines_are_runs_of_the_catalogue():
    """What is held against a plan is what the row says: its rate a user, its time a token, or its prefill."""
    rows = {row.id: row for row in catalog.measurements()}
    assert {line.run for line in lines()} <= set(rows)
    for line in COMPARED:
        row = rows[line.run]
        if line.rate == "prompt":
            assert line.measured == row.prefill_tokens_per_second
        elif "TPOT" in line.line:
            assert line.measured == pytest.approx(1e3 / _tpot(line.line), rel=0.01)
        elif "from" not in line.line and " to " not in line.line:
            assert line.measured == pytest.approx(
                (row.decode_tokens_per_second or 0) / (row.concurrency or 1), rel=0.01
            )


def _tpot(text: str) -> float:
    return float(text.partition("TPOT ")[2].partition(" ")[0])
