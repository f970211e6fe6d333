"""Failures: reports in words are told by their rows, healthy lines by none; all lines of rows: scripts/lint-rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.failure_board import diagnosed
from upright.facts import catalog
from upright.facts.catalog.rows.failure import FailureRow

ROWS = catalog.failures()
WORDS = [row for row in ROWS if row.where == "words"]
LINES = [row for row in ROWS if row.where not in ("evidence", "frame", "words", "part")]
HEALTHY = [
    (file.stem, line)
    for file in sorted((Path(__file__).parents[1] / "recordings/logs/healthy").glob("*.log"))
    for line in file.read_text().splitlines()
    if line.strip()
]


@pytest.mark.parametrize("row", WORDS, ids=lambda row: row.id)
def test_a_report_is_told_by_its_row(row: FailureRow) -> None:
    assert row.seen != "none"
    for seen in row.seen:
        assert row.id in {finding.code for finding in diagnosed(seen.line).possibilities}


def test_a_healthy_line_by_itself_is_no_report() -> None:
    """Somebody pastes one line that no engine's mark stands in: it is still nobody's complaint."""
    for line in dict.fromkeys(catalog.healthy_lines()):
        assert not (diagnosed(line).code or "").startswith(("words-", "part-")), line


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


def test_most_failures_were_seen() -> None:
    unseen = [row.id for row in ROWS if row.seen == "none"]
    assert len(unseen) <= 5, unseen
