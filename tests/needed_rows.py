"""Rows of the failures catalogue -> those that are the only answer to nothing that is recorded: they could go."""

from __future__ import annotations

from tests.failure_board import diagnosed, judgements, thread_judgements
from upright.facts import catalog
from upright.facts.catalog.rows.failure import FailureRow

_TOLD_BESIDE = ("part", "frame", "host", "kernel", "evidence", "answer")
"""Where no log is looked at, and the part × symptom table."""


def not_needed() -> list[str]:
    """A row that answers a recorded line is its only answer: without it another would be named, or none."""
    answering = {judged.code for judged in (*judgements(), *thread_judgements()) if judged.verdict == "right"}
    rows = [row for row in catalog.failures() if row.where not in _TOLD_BESIDE and row.severity != "hang"]
    return [row.id for row in rows if row.id not in answering and not _answers_its_own(row)]


def _answers_its_own(row: FailureRow) -> bool:
    """It comes first; what only follows from a fall, or says that one was, is told at all."""
    if row.where == "words" or row.seen == "none":
        return False
    follows = row.tells == "consequence" or row.severity == "symptom"
    for seen in row.seen:
        found = diagnosed("\n".join(line for line in (seen.beside, seen.line) if line))
        codes = [finding.code for finding in found.findings]
        if row.id in (codes if follows else codes[:1]):
            return True
    return False
