"""Matches a report in a user's own words, with no engine line in it, with the catalogue's failure rows.

Words that are harmless in a log ("stuck", "slow") mean something where a person writes them, so these rows are asked
only about a text in which no line is an engine's and that no other row knows.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from upright.facts.catalog.rows.failure import SPECIFICITY_ORDER, FailureRow
from upright.facts.records.diagnosis import Sighting
from upright.serving.diagnose import lines, milestones
from upright.serving.diagnose.scan import HEAD_BYTES, Hit, Scan
from upright.serving.diagnose.user_report import UserReport, read_report

LONGEST_REPORT = 6_000
"""Characters: who writes more pastes a log."""
_SPACES = re.compile(r"\s+")
_WORD = re.compile(r"[A-Za-z]{2,}|[\u4e00-\u9fff]{2,}")
_FEWEST_WORDS = 3
_MOST_LIKELY = 3
_WIDE = ("class", "family", "topic")
_PART = r"(?i:\A("
"""Begins the pattern of a part (a backend, a way to share work) that is blamed only together with what goes wrong. One
that is named after the symptom was told is most often the setting."""
_HEADING = re.compile(
    r"^\W{0,4}(?:\[(?:bug|usage|feature|question|performance|installation|misc|help|rfc|doc)[^\]]*\]\W{0,2}"
    r"|(?:misc\.?|eval|server|research) bug: )\s*",
    re.IGNORECASE,
)
"""How a project's form has the title of a report begin."""
_MODEL_NAME = re.compile(
    r"(?i)\b((?:kimi|qwen|glm|deepseek|minimax|nemotron|gemma|mistral|ernie|step-?\d|gpt-oss)[\w.]{0,20}(?:-[\w.]{1,20}){0,6}?)"
    r"-(?:thinking|reasoning|flash|vision|vl|omni|audio|draft|chat|speculator)\b"
)
"""A part of a model's name says what it is called, not what happened."""
_PROGRAMS = re.compile(
    r"^\s*(?:(?=\w+?[_.]\w)[\w.]+(?:\(\))?: |(?:INFO|WARN(?:ING)?|ERROR|DEBUG|CRITICAL)[: ]"
    r"|[\w.]+ - (?:ERROR|WARNING|INFO)\b|(?:fatal )?error: |warning: |File \"|Traceback |\[[\w.:/ -]+\]|\w+\(\w+"
    r"|(?:srv|slot|que|main|cmn)\b[: ] *\w+|.{0,200}\b(?:Error|Exception): "
    r"|(?:docker|podman|kubectl|helm)\w{0,8}: "
    r"|(?:data: )?\{? ?\\?[\"'](?:error|object|detail|message|code|type|param|status)\\?[\"'] ?:)"
)
"""How programs begin a line and people do not."""


def rows_in_free_text(seen: Scan, hits: Sequence[Hit], rows: Iterable[FailureRow]) -> list[Hit]:
    """The likeliest first, then what is told as plainly. Nothing if it tells of nothing that a row knows."""
    report = report_in(seen)
    if report is None:
        return []
    speaking = _speaking([row for row in rows if row.where == "words"], report)
    slow = [hit for hit in hits if hit.row.severity == "slow"]
    if slow and all(SPECIFICITY_ORDER[row.tells] >= SPECIFICITY_ORDER[slow[0].row.tells] for row in speaking):
        return slow[:1]
    likely = [row for row in speaking if row.tells == speaking[0].tells][:_MOST_LIKELY]
    return [Hit(row, _sighting(row, seen), {}, 1) for row in likely]


def without_context(seen: Scan, hits: Sequence[Hit]) -> list[Hit]:
    """Of a report, the rows that are borne out by more than a command, or what was tried in vain or works."""
    report = report_in(seen)
    if report is None:
        return list(hits)
    said = (*report.complaints, *report.setting, " ".join(report.complaints))
    return [
        hit
        for hit in hits
        if hit.row.tells not in _WIDE
        or any(map(hit.row.matches, said))
        or not any(map(hit.row.matches, report.context))
    ]


def report_in(seen: Scan) -> UserReport | None:
    """What a person wrote; None if it is too long for a report, or mostly a program's."""
    if not seen.head.strip() or seen.bytes > HEAD_BYTES:
        return None
    written = [_HEADING.sub("", line) for line in seen.head[:LONGEST_REPORT].splitlines() if line.strip()]
    own = [_SPACES.sub(" ", _MODEL_NAME.sub(r"\1", line)).strip() for line in written if _is_a_persons(line)]
    if 2 * len(own) < len(written) or len(_WORD.findall(" ".join(own))) < _FEWEST_WORDS:
        return None
    return read_report(own)


def _speaking(rows: Sequence[FailureRow], report: UserReport) -> list[FailureRow]:
    """The most telling first; a row that one sentence bears out goes before one that takes several."""
    complaints, together = report.complaints, " ".join(report.complaints)
    everything = " ".join((*complaints, *report.setting))
    symptom = min(
        (at for row in rows if row.tells == "family" if (at := _first(row, complaints)) is not None), default=0
    )
    ranked: list[tuple[tuple[int, int, int], FailureRow]] = []
    for row in rows:
        telling, at = SPECIFICITY_ORDER[row.tells], _first(row, complaints)
        if at is not None:
            late = row.pattern.startswith(_PART) and at > symptom
            ranked.append(((0, SPECIFICITY_ORDER["topic"] if late else telling, 0), row))
        elif not _takes_sentences(row):
            ranked += [((0, telling, 1), row)] if any(map(row.matches, report.setting)) else []
        elif row.matches(together):
            ranked.append(((0, telling, 1), row))
        elif row.matches(everything):
            ranked.append(((1, telling, 0), row))
    return [row for _, row in sorted(ranked, key=lambda pair: pair[0])]


def _first(row: FailureRow, sentences: Sequence[str]) -> int | None:
    return next((number for number, sentence in enumerate(sentences) if row.matches(sentence)), None)


def _takes_sentences(row: FailureRow) -> bool:
    """Whether its words may stand in different sentences: a gap between two words ends where a sentence does."""
    return "^(?=" in row.pattern


def _is_a_persons(line: str) -> bool:
    return not (lines.starts_a_line(line) or _PROGRAMS.match(line) or milestones.EXCEPTION.search(line))


def _sighting(row: FailureRow, seen: Scan) -> Sighting:
    """The first line that tells it by itself; the first one at all if only several together do."""
    numbered = [(number, line) for number, line in enumerate(seen.head.splitlines(), 1) if line.strip()]
    number, line = next((pair for pair in numbered if row.matches(pair[1])), numbered[0])
    return Sighting(number=number, text=line.strip()[:LONGEST_REPORT])
