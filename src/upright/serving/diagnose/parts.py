"""Tells which parts of an engine a failure is about, where no row knows its line: by files and symbols, then by words.

What was raised counts most, then what else complains. Where it was raised is told by `excerpt.frames_above`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from upright.facts.catalog.rows.failure import FailureRow
from upright.facts.records.diagnosis import Sighting
from upright.serving.diagnose import lines
from upright.serving.diagnose.free_text import report_in
from upright.serving.diagnose.scan import HEAD_BYTES, Hit, Scan

_MOST_LINES = 400
_RAISED, _COMPLAINED, _TOLD = 3, 2, 1
_OF_A_TRACEBACK = re.compile(r'^(?:Traceback |\s+File "|\s{3,})')
"""Where it was raised is told by the frames' own rows."""
_COMPLAINS = re.compile(
    r"(?i)error|exception|fail|fault|abort|assert|fatal|panic|cannot|can't|could ?n[o']t|unable|not (?:found|supported"
    r"|allowed|valid|a |enough)|invalid|unknown|unexpected|missing|refus|denied|timed? ?out|killed|out of|no such"
    r"|undefined|unsupported|mismatch|exceed|crash|hang|stuck|stall|slow|OOM|NVRM|Oops|wrong|garbage|must be"
    r"|requires?\b|too (?:long|large)|does ?n[o']t|is ?n[o']t|never|no longer|impossible|gibberish|instead of"
)


class _Said(NamedTuple):
    weight: int
    sighting: Sighting


def likely_parts(seen: Scan, rows: Iterable[FailureRow], *, of_an_engine: bool) -> list[Hit]:
    """The likeliest first; nothing where no line complains. Of an engine's log only lines that complain count."""
    said = [spoken for spoken in _said(seen) if spoken.weight > _TOLD or not of_an_engine]
    if not any(spoken.weight > _TOLD for spoken in said):
        return []
    spoken_of = [(row, first) for row in rows if row.where == "part" and (first := _first(row, said)) is not None]
    ranked = sorted(spoken_of, key=lambda pair: -_weight(pair[0], said))
    return [Hit(row, first, {}, 1) for row, first in ranked]


def _said(seen: Scan) -> Iterator[_Said]:
    symptoms = [hit.first for hit in seen.hits.values() if hit.row.severity == "symptom"]
    raised = [*seen.errors[:3], *symptoms, *([seen.dying] if seen.dying else [])]
    yield from (_Said(_RAISED, sighting) for sighting in raised)
    if seen.bytes > HEAD_BYTES or seen.ready:
        return
    if report := report_in(seen):
        for text in (*report.complaints, *report.setting):
            plain = text in report.complaints and _COMPLAINS.search(text)
            yield _Said(_COMPLAINED if plain else _TOLD, Sighting(number=1, text=text))
        return
    known = {sighting.number for sighting in raised}
    for number, line in list(enumerate(seen.head.splitlines(), 1))[-_MOST_LINES:]:
        for text in lines.readable(line.encode())[-1:]:
            if (
                number not in known
                and not lines.is_harmless(text)
                and not _OF_A_TRACEBACK.match(lines.message_of(text))
            ):
                sighting = Sighting(number=number, rank=lines.rank_of(text), text=text)
                yield _Said(_COMPLAINED if _COMPLAINS.search(text) else _TOLD, sighting)


def goes_on(seen: Scan) -> bool:
    """Whether a program's text says that it found a way out."""
    said = [text for text in seen.head.splitlines() if text.strip()]
    return any(map(lines.is_harmless, said)) and (len(said) == 1 or report_in(seen) is None)


def _first(row: FailureRow, said: Sequence[_Said]) -> Sighting | None:
    """The most telling line that holds one of its marks."""
    marked = [spoken for spoken in said if row.matches(spoken.sighting.text)]
    return max(marked, key=lambda spoken: spoken.weight).sighting if marked else None


def _weight(row: FailureRow, said: Sequence[_Said]) -> int:
    """Each mark counts once, where it is most telling."""
    marks: dict[str, int] = {}
    for spoken in said:
        for mark in re.finditer(row.pattern, spoken.sighting.text):
            marks[mark[0].lower()] = max(spoken.weight, marks.get(mark[0].lower(), 0))
    return sum(marks.values())
