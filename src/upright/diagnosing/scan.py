"""A log -> which rows of the catalogue its lines bear out, in one pass and in bounded memory.

A busy engine prints few sentences with many numbers. Without their digits nearly all lines have been seen before, and
those are passed over at the speed of a set; only a sentence that is new is decoded and held against the rows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import BinaryIO, NamedTuple

from upright.catalog.rows.failure import FailureRow
from upright.diagnosing import lines, marks
from upright.diagnosing.matching import Matcher
from upright.diagnosing.rejoining import rejoined
from upright.records.diagnosis import Sighting

BLOCK_BYTES = 1 << 20
HEAD_BYTES = TAIL_BYTES = 64 << 10
_KEPT_ERRORS = 64
_KEPT_RANKS = 64
_KEPT_SENTENCES = 50_000
_LONGEST_SENTENCE = 1000
_DIGITS = b"0123456789"
_NUMBERS_MATTER = re.compile(
    rb"\bXid\b|[Ee]rr(?:or|no)\b|[Ee]xit|[Ss]ignal|[Ss]tatus|[Cc]ode\b|[Cc]apability|\bsm_?\d|\bSM ?\d|compute_\d",
    re.ASCII,
)
"""Lines whose numbers tell what they mean: two that differ in nothing else are not one sentence."""


@dataclass
class Hit:
    """A row, and the lines that show it."""

    row: FailureRow
    first: Sighting
    words: dict[str, str]
    """What the pattern's named parts held in the first line."""
    count: int = 0
    ranks: dict[str, None] = field(default_factory=dict)


class Meaning(NamedTuple):
    """What a sentence says, whatever its numbers."""

    rows: tuple[FailureRow, ...]
    marks: frozenset[str]
    complains: bool
    """It looks like a cause, and no row knows it."""
    beside: frozenset[str] = frozenset()
    """Rows that are told from their neighbours by this line."""


@dataclass
class Scan:
    """What one pass over a log has seen, since its last start."""

    hits: dict[str, Hit] = field(default_factory=dict)
    """By the row's name, in the order of their first lines."""
    errors: list[Sighting] = field(default_factory=list)
    """The first lines that look like a cause and that no row knows."""
    dying: Sighting | None = None
    """The first line that says that the engine is going down."""
    ready: bool = False
    ending: bool = False
    """It was asked to stop."""
    beside: set[str] = field(default_factory=set)
    """Rows for whose cause another line of this start speaks."""
    starts: int = 0
    lines: int = 0
    bytes: int = 0
    head: str = ""
    tail: list[str] = field(default_factory=list)


def scan(log: BinaryIO, rows: Sequence[FailureRow]) -> Scan:
    seen, reader = Scan(), _Reader(rows)
    block = b""
    for block in _blocks(log):
        if seen.bytes < HEAD_BYTES:
            seen.head += lines.without_colours(block[: HEAD_BYTES - seen.bytes]).decode("utf-8", "replace")
        reader.read(block, seen)
        seen.bytes += len(block)
        seen.lines += block.count(b"\n")
    seen.lines += bool(block) and not block.endswith(b"\n")
    seen.tail = _last_lines(block)
    reader.rejoin(seen)
    return seen


class _Reader:
    """The rows and the marks, made ready for many lines, and the sentences that are known already."""

    def __init__(self, rows: Sequence[FailureRow]) -> None:
        self.matcher = Matcher(rows)
        self.beside = [(row.id, re.compile(row.beside)) for row in rows if row.beside is not None]
        signs = (*marks.signs(), *(pattern.pattern for _, pattern in self.beside))
        self.signs = re.compile("|".join(f"(?:{pattern})" for pattern in signs))
        self.marks = [(mark.means, re.compile(mark.pattern)) for mark in marks.marks()]
        self.idle: set[bytes] = set()
        self.loud: dict[bytes, list[Meaning | None]] = {}

    def read(self, block: bytes, seen: Scan) -> None:
        sentences = block.translate(None, _DIGITS).split(b"\n")
        fresh = [place for place, sentence in enumerate(sentences) if sentence not in self.idle]
        if not fresh:
            return
        raw = block.split(b"\n")
        for place in fresh:
            sentence = sentences[place]
            if sentence in self.idle:
                continue
            parts = lines.readable(raw[place])
            meanings = self.loud.get(sentence)
            if meanings is None:
                meanings = [self.meaning(text) for text in parts]
                if not _NUMBERS_MATTER.search(raw[place]):
                    self._remember(sentence, meanings)
            for text, meaning in zip(parts, meanings, strict=False):
                if meaning is not None:
                    note(meaning, text, seen.lines + place + 1, seen)

    def meaning(self, text: str) -> Meaning | None:
        """None for a line that says nothing about a failure."""
        rows = self.matcher.claims(text)
        if not rows and not self.signs.search(text):
            return None
        means = frozenset(name for name, pattern in self.marks if pattern.search(text))
        complains = not rows and marks.complains(text)
        beside = frozenset(name for name, pattern in self.beside if pattern.search(text))
        return Meaning(rows, means, complains, beside) if rows or means or complains or beside else None

    def rejoin(self, seen: Scan) -> None:
        """Of a text that somebody pasted, the lines that were broken on the way."""
        if seen.bytes > HEAD_BYTES or any(hit.row.alarms for hit in seen.hits.values()):
            return
        texts = [text for raw in seen.head.encode().split(b"\n") for text in (lines.readable(raw) or [""])[-1:]]
        for place, text in rejoined(texts):
            for row in self.matcher.claims(text):
                if row.id not in seen.hits:
                    note(Meaning((row,), frozenset(), complains=False), text, place + 1, seen)

    def _remember(self, sentence: bytes, meanings: list[Meaning | None]) -> None:
        if len(sentence) > _LONGEST_SENTENCE:
            return
        if len(self.idle) + len(self.loud) >= _KEPT_SENTENCES:
            self.idle.clear()
            self.loud.clear()
        if any(meanings):
            self.loud[sentence] = meanings
        else:
            self.idle.add(sentence)


def note(meaning: Meaning, text: str, number: int, seen: Scan) -> None:
    """What this line changes in what is known."""
    if "start" in meaning.marks:  # what an earlier life died of is not the question
        seen.hits, seen.errors, seen.dying, seen.ready, seen.ending = {}, [], None, False, False
        seen.beside = set()
        seen.starts += 1
    if "ready" in meaning.marks:  # what kills a start did not kill this one
        seen.errors, seen.dying, seen.ready = [], None, True
        seen.hits = {code: hit for code, hit in seen.hits.items() if hit.row.severity not in ("fatal", "symptom")}
    seen.beside |= meaning.beside
    seen.ending = seen.ending or "shutdown" in meaning.marks
    if seen.ending:  # what falls while it is taken down on request was not the cause of anything
        return
    for row in meaning.rows:
        hit = seen.hits.get(row.id)
        if hit is None:
            hit = seen.hits[row.id] = Hit(row, _sighting(text, number), _words(row, text))
        hit.count += 1
        if len(hit.ranks) < _KEPT_RANKS and (rank := lines.rank_of(text)):
            hit.ranks[rank] = None
    if "death" in meaning.marks and seen.dying is None:
        seen.dying = _sighting(text, number)
    if meaning.complains and len(seen.errors) < _KEPT_ERRORS:
        seen.errors.append(_sighting(text, number))


def _sighting(text: str, number: int) -> Sighting:
    return Sighting(number=number, rank=lines.rank_of(text), text=text[:2000])


def _words(row: FailureRow, text: str) -> dict[str, str]:
    match = row.match(text)
    return {name: value for name, value in match.groupdict().items() if value is not None} if match else {}


def _blocks(log: BinaryIO) -> Iterator[bytes]:
    """Whole lines, about a megabyte at a time; a line without an end is cut where memory would grow with it."""
    rest = b""
    while more := log.read(BLOCK_BYTES):
        block = rest + more
        end = block.rfind(b"\n") + 1 or (len(block) if len(block) > 8 * BLOCK_BYTES else 0)
        rest = block[end:]
        if end:
            yield block[:end]
    if rest:
        yield rest


def _last_lines(block: bytes) -> list[str]:
    """The last lines of a block that say anything."""
    text = block[-TAIL_BYTES:].splitlines()
    return [shown for raw in text for shown in lines.readable(raw)][-200:]
