"""The shortest piece of a log that holds a cause no row knows, and the catalogue row that somebody should write."""

from __future__ import annotations

import re
from collections import deque
from typing import BinaryIO

from upright.facts import catalog
from upright.facts.records.diagnosis import Sighting
from upright.serving.diagnose import lines, milestones
from upright.serving.diagnose.scan import BLOCK_BYTES, Scan

_BEFORE = 400
_LAST_WORDS = 6
_TRACEBACK = "Traceback (most recent call last)"
_FEWEST_LETTERS = 12
"""Of a line that a row can be made of: fewer, and healthy lines hold them too."""
_FRAME = re.compile(r'^\s*File "[^"]+", line \d+')


def excerpt(log: BinaryIO, seen: Scan, reason: str | None) -> tuple[Sighting, ...]:
    """The exception with the frame that raised it; else the complaint; else the last words."""
    cause = _first_cause(seen)
    if cause is None or cause.number is None:
        return last_lines(seen) or ((Sighting(where="host", text=reason),) if reason else ())
    frame = (
        _last_frame(_led_up_to(log, seen, cause)) if milestones.EXCEPTION.search(lines.message_of(cause.text)) else []
    )
    return (*frame, cause)


def main_exception(seen: Scan) -> Sighting | None:
    """The exception that stands for the failure; None if nothing was raised."""
    cause = _first_cause(seen)
    raised = (
        cause is not None and cause.number is not None and milestones.EXCEPTION.search(lines.message_of(cause.text))
    )
    return cause if raised else None


def frames_above(log: BinaryIO, seen: Scan, exception: Sighting) -> list[Sighting]:
    """`File ..., line N` of its own traceback, the innermost first."""
    frames: list[Sighting] = []
    for line in reversed(_led_up_to(log, seen, exception)):
        words = lines.message_of(line.text)
        if _TRACEBACK in words:
            break
        if _FRAME.match(words):
            frames.append(line)
    return frames


def frames_below(seen: Scan, exception: Sighting) -> list[Sighting]:
    """Of a text that somebody pasted: the stack that stands under its exception, the innermost first."""
    begin = exception.number or 0
    frames: list[Sighting] = []
    for number, line in enumerate(seen.head.split("\n")[begin:], begin + 1):
        text = next(iter(lines.readable(line.encode())[-1:]), "")
        if _TRACEBACK in text:
            break
        if lines.rank_of(text) == exception.rank and _FRAME.match(lines.message_of(text)):
            frames.append(Sighting(number=number, rank=exception.rank, text=text))
    return frames[::-1]


def frames_at_the_end(seen: Scan) -> list[Sighting]:
    """Of a text that ends within a traceback: the frames of the process that was cut off, the innermost first."""
    texts = [text for line in seen.head.split("\n") for text in lines.readable(line.encode())[-1:] or [""]]
    said = [(number, text) for number, text in enumerate(texts, 1) if text.strip()]
    last = lines.rank_of(said[-1][1]) if said else None
    frames: list[Sighting] = []
    for number, text in reversed(said):
        words, rank = lines.message_of(text), lines.rank_of(text)
        if _FRAME.match(words):
            frames.append(Sighting(number=number, rank=rank, text=text))
        elif rank == last and not words.startswith("  "):
            break
    return frames


def last_lines(seen: Scan) -> tuple[Sighting, ...]:
    return tuple(Sighting(text=text) for text in seen.tail[-_LAST_WORDS:])


def suggested_row(pieces: tuple[Sighting, ...], engine: str | None) -> str | None:
    """A row to fill in; None where it would claim what healthy engines print, or the line complains of nothing."""
    if not pieces or not milestones.complains(pieces[-1].text):
        return None
    line = lines.message_of(pieces[-1].text).strip()
    pattern = re.compile(_pattern_of(line))
    told = ": " in line and len(re.sub(r"[\W\d_]", "", line)) >= _FEWEST_LETTERS
    return row_template(pieces, engine) if told and not any(map(pattern.search, catalog.healthy_lines())) else None


def row_template(pieces: tuple[Sighting, ...], engine: str | None) -> str:
    """A row of the catalogue to fill in; what the line gives is filled in already."""
    line = lines.message_of(pieces[-1].text).strip() if pieces else ""
    quoted = line.replace("'", "''")
    pattern = _pattern_of(line).replace("'", "''")
    return f"""- id: {engine or "any"}-NAME-IT
  title: WHAT HAPPENED, IN A LINE
  engines: [{engine or "any"}]
  severity: fatal
  pattern: '{pattern}'
  cause: WHY IT HAPPENS
  remedies:
  - {{do: by_hand, why: "WHAT CURED IT"}}
  seen:
  - line: '{quoted}'
    source: WHERE
  grade: B
  sources: ["WHERE"]
"""


def _pattern_of(line: str) -> str:
    """The line, whatever its numbers."""
    return re.sub(r"\d+(?:\\\.\d+)*", r"\\d+", re.escape(line)).replace(r"\ ", " ")


def _first_cause(seen: Scan) -> Sighting | None:
    """An exception says more than a complaint; the first of each says more than those that follow from it."""
    raised = [sighting for sighting in seen.errors if milestones.EXCEPTION.search(lines.message_of(sighting.text))]
    symptoms = [hit.first for hit in seen.hits.values() if hit.row.severity == "symptom"]
    return next(iter([*raised, *seen.errors, *symptoms, *([seen.dying] if seen.dying else [])]), None)


def _lines_before(log: BinaryIO, number: int, begin: tuple[int, int]) -> list[Sighting]:
    """The lines that lead up to that one; a part of the log is read again, and only so far."""
    offset, place = begin
    log.seek(offset)
    kept: deque[tuple[int, bytes]] = deque(maxlen=_BEFORE)
    while place < number - 1 and (raw := log.readline(BLOCK_BYTES)):
        kept.append((place + 1, lines.shortened(raw)))
        place += raw.endswith(b"\n")
    return [
        Sighting(number=place, rank=lines.rank_of(text), text=text)
        for place, raw in kept
        for text in lines.readable(raw)[-1:]
    ]


def _led_up_to(log: BinaryIO, seen: Scan, cause: Sighting) -> list[Sighting]:
    """What the process that printed it had printed before."""
    number = cause.number or 0
    return _same_rank(_lines_before(log, number, seen.places.get(number, (0, 0))), cause)


def _same_rank(before: list[Sighting], cause: Sighting) -> list[Sighting]:
    return [sighting for sighting in before if sighting.rank == cause.rank]


def _last_frame(before: list[Sighting]) -> list[Sighting]:
    """The line that raised it: `File ..., line N` and the code under it."""
    for place in range(len(before) - 1, -1, -1):
        log_line = lines.message_of(before[place].text)
        if _TRACEBACK in log_line:
            return []
        if _FRAME.match(log_line):
            return [
                sighting
                for sighting in before[place : place + 2]
                if set(lines.message_of(sighting.text).strip()) - set("^~ ")
            ]
    return []
