"""Failures: each real line belongs to one row and one only, and healthy logs belong to none that alarms."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.failure_board import diagnosed
from upright.facts import catalog
from upright.facts.catalog.recorded_flags import recorded_versions, versions_taking
from upright.facts.catalog.rows.failure import FailureRow, SeenLine
from upright.serving.diagnose.matching import claims

ROWS = catalog.failures()
FRAMES = [row for row in ROWS if row.where == "frame"]
WORDS = [row for row in ROWS if row.where == "words"]
LINES = [row for row in ROWS if row.where not in ("evidence", "frame", "words")]
SEEN = [(row, seen) for row in LINES if row.seen != "none" for seen in row.seen]
HEALTHY = [
    (file.stem, line)
    for file in sorted((Path(__file__).parents[1] / "recordings/logs/healthy").glob("*.log"))
    for line in file.read_text().splitlines()
    if line.strip()
]


@pytest.mark.parametrize(("row", "seen"), SEEN, ids=[f"{row.id}-{number}" for number, (row, _) in enumerate(SEEN)])
def test_a_seen_line_matches_its_row_and_only_its_row(row: FailureRow, seen: SeenLine) -> None:
    """By itself, or by the line beside it where several causes share it. A row that knows only a class gives way to
    one that knows the line."""
    claimants = list(claims(seen.line, LINES))
    if len(claimants) > 1:
        assert all(other.beside for other in claimants), [other.id for other in claimants]
        claimants = [other for other in claimants if re.search(other.beside or "", seen.beside or "")]
    assert [other.id for other in claimants] == [row.id]


@pytest.mark.parametrize("row", FRAMES, ids=lambda row: row.id)
def test_a_frame_belongs_to_the_first_row_that_names_its_part(row: FailureRow) -> None:
    assert row.seen != "none"
    for seen in row.seen:
        assert next(other.id for other in FRAMES if other.matches(seen.line)) == row.id


@pytest.mark.parametrize("row", WORDS, ids=lambda row: row.id)
def test_a_report_is_told_by_its_row(row: FailureRow) -> None:
    assert row.seen != "none"
    for seen in row.seen:
        assert diagnosed(seen.line).code == row.id


def test_a_healthy_line_by_itself_is_no_report() -> None:
    """Somebody pastes one line that no engine's mark stands in: it is still nobody's complaint."""
    for line in dict.fromkeys(catalog.healthy_lines()):
        assert not (diagnosed(line).code or "").startswith("words-"), line


def test_healthy_lines_raise_no_alarm() -> None:
    assert len(HEALTHY) >= 60
    claimed = {(row.id, line) for _, line in HEALTHY for row in claims(line, LINES) if row.alarms}
    assert claimed == set()


def test_lines_that_are_normal_and_mean_a_hang_only_with_silence_are_hangs() -> None:
    hangs = {row.id: row for row in ROWS if row.severity == "hang"}
    assert {"vllm-nccl-version-then-silence", "nccl-init-then-silence", "shm-broadcast-waits"} <= set(hangs)
    claimed = {row.id for _, line in HEALTHY for row in LINES if row.matches(line)}
    normal = set(hangs) - {"sglang-health-check"}  # a complaint, though a healthy engine makes it too
    assert normal <= claimed, "the healthy logs hold these lines: that is why they need silence"
    assert all(row.silence_seconds and not row.alarms for row in hangs.values())


def test_information_never_alarms() -> None:
    rows = [row for row in ROWS if row.severity == "information"]
    assert rows
    assert not any(row.alarms for row in rows)


def test_every_remedy_that_names_a_flag_names_one_that_the_engine_takes() -> None:
    """A remedy is a change of a recipe: a flag that no recorded version takes would be refused at start."""
    for row in ROWS:
        for remedy in row.remedies:
            if remedy.do.endswith("_flag") and "{" not in (remedy.name or ""):
                engines = [remedy.engine] if remedy.engine else [each for each in row.engines if each != "any"]
                known = [engine for engine in engines if recorded_versions(engine)]
                takers = [engine for engine in known if versions_taking(engine, remedy.name or "")]
                assert takers == known, f"{row.id}: no recorded version of {known} takes {remedy.name}"


def test_most_failures_were_seen() -> None:
    unseen = [row.id for row in ROWS if row.seen == "none"]
    assert len(unseen) <= 5, unseen
