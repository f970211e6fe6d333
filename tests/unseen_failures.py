"""Recorded failures, each asked of the rows that do not stand on it: what `diagnose` makes of what nobody has read.

By cluster: the rows that cite a thread are taken away, and with them every row that knows a line, a class or words of
the same part; what is left is the rest of the catalogue, and what it knows of parts.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, NamedTuple
from unittest import mock

from tests.failure_board import diagnosed, recorded, text_of, threads
from upright.facts import catalog
from upright.facts.catalog.rows.failure import FailureRow
from upright.facts.records.diagnosis import CERTAIN, Diagnosis

_SHORT = 20
"""Characters of a line that may stand in any log."""
VERDICTS = ("right", "possible", "part", "not right", "nothing", "wrong")
"""right: the cause, with certainty; possible: within three possibilities; part: a possibility of the right part;
not right: only other possibilities; nothing: no answer, or a symptom; wrong: another cause, with certainty."""


class Asked(NamedTuple):
    """A failure, and what the others' rows make of it."""

    failure: dict[str, Any]
    part: str
    verdict: str
    code: str | None


def asked() -> tuple[Asked, ...]:
    """All recorded failures."""
    return tuple(_asked(failure) for failure in (*recorded()["failures"], *threads()))


def _asked(failure: dict[str, Any]) -> Asked:
    answering = _answering(failure)
    citing = _citing(failure, answering)
    parts = frozenset(row.part for row in citing if row.part is not None)
    siblings = {
        row.id for row in _rows() if row.part in parts and (row.knowledge in CERTAIN or row.tells in ("cause", "class"))
    }
    away = frozenset({row.id for row in citing} | siblings)
    match = FailureRow.match
    with mock.patch.object(FailureRow, "match", lambda row, line: None if row.id in away else match(row, line)):
        found = diagnosed(failure["excerpt"])
    part = answering.part if answering is not None else min(parts, default=None)
    return Asked(failure, part or "none", _verdict(failure, found, parts), found.code)


def _verdict(failure: dict[str, Any], found: Diagnosis, parts: frozenset[str]) -> str:
    ranked = tuple(finding for finding in found.findings[:1] if finding.causes)
    named = (found.cause,) if found.cause else found.possibilities or ranked
    if not named:
        return "nothing"
    if any(re.search(failure["says"], text_of(finding), re.IGNORECASE) for finding in named):
        return "right" if found.cause else "possible"
    if found.cause:
        return "wrong"
    return "part" if any(finding.part in parts for finding in named) else "not right"


def _answering(failure: dict[str, Any]) -> FailureRow | None:
    """The row that answers when all are asked."""
    code = diagnosed(failure["excerpt"]).code
    return next((row for row in _rows() if row.id == code), None)


def _citing(failure: dict[str, Any], answering: FailureRow | None) -> tuple[FailureRow, ...]:
    """The rows that name its thread or hold one of its lines, and the one that answers."""
    found = _by_source().get(_thread(failure["source"]), ()) if failure["source"] else ()
    lines = {line.strip() for line in failure["excerpt"].splitlines() if len(line.strip()) > _SHORT}
    holding = [row for row in _rows() if row.seen != "none" and any(seen.line.strip() in lines for seen in row.seen)]
    return tuple({row.id: row for row in (*found, *holding, *([answering] if answering else []))}.values())


@cache
def _rows() -> tuple[FailureRow, ...]:
    return catalog.failures()


@cache
def _by_source() -> dict[str, tuple[FailureRow, ...]]:
    rows: dict[str, tuple[FailureRow, ...]] = {}
    for row in _rows():
        told = (*row.sources, *(seen.source for seen in row.seen if row.seen != "none"))
        for thread in {_thread(source) for source in told} - {""}:
            rows[thread] = (*rows.get(thread, ()), row)
    return rows


def _thread(source: str) -> str:
    """`owner/name#N` of an address or of a short name; else nothing."""
    match = re.search(r"(?:github\.com/)?([\w.-]+/[\w.-]+?)(?:#|/(?:issues|pull|discussions)/)(\d+)", source)
    return f"{match[1]}#{match[2]}".lower() if match else ""


def table(answers: Iterable[Asked], group: Callable[[Asked], str]) -> list[str]:
    """Markdown."""
    counts: dict[str, Counter[str]] = {}
    for answer in answers:
        counts.setdefault(group(answer), Counter())[answer.verdict] += 1
    rows = [
        f"| {name} | {told.total()} | {' | '.join(str(told[verdict]) for verdict in VERDICTS)} |"
        for name, told in sorted(counts.items())
    ]
    return [f"| | failures | {' | '.join(VERDICTS)} |", "|---|" + "---:|" * (len(VERDICTS) + 1), *rows]
