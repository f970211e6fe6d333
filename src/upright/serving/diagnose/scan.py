"""Matches the lines of a log with the catalogue's failure rows, in one pass and in bounded memory.

A busy engine prints few sentences with many numbers. Without their digits nearly all lines have been seen before, and
those are passed over at the speed of a set; only a sentence that is new is decoded and held against the rows.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from io import SEEK_END
from itertools import islice
from typing import BinaryIO, NamedTuple

from upright.facts.catalog.rows.failure import SPECIFICITY_ORDER, FailureRow
from upright.facts.records.diagnosis import Sighting
from upright.serving.diagnose import lines, milestones
from upright.serving.diagnose.literals import PatternPrefilter

BLOCK_BYTES = 1 << 16
HEAD_BYTES = TAIL_BYTES = 64 << 10
_LONGEST_PIECE_BYTES = 1 << 20
_KEPT_ERRORS = 64
_KEPT_RANKS = 64
_KEPT_SENTENCES = 50_000
_LONGEST_SENTENCE = 1000
_SHOWN_CHARACTERS = 2000
_END_LINES = 100
"""They are looked at whatever came before them."""
_STEPS_AT_FIRST = 12_000_000
"""What looking may cost, counted in characters that a pattern goes over; each byte of the log adds some more."""
_STEPS_A_BYTE, _STEPS_A_LINE, _STEPS_A_SENTENCE, _STEPS_A_NEEDLE = 3, 4, 60, 40
_STEPS_A_LOOK, _STEPS_A_PATTERN = 3000, 1000
_NEEDLES_A_STEP = 20
_MOST_MARKS = 50
"""Lines of a block that are asked for marks when there is no more time for rows."""
OUTLASTING = ("information", "slow")
"""What may still be true of an engine that is ready."""
_DIGITS = b"0123456789"
_NUMBERS_MATTER = re.compile(
    rb"\bXid\b|[Ee]rr(?:or|no)\b|[Ee]xit|[Ss]ignal|[Ss]tatus|\b[Cc]ode\b|returncode|[Cc]apability|\bsm_?\d|\bSM ?\d"
    rb"|compute_\d",
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
    quiet: bool = False
    """Every line of it is a warning, or for information: that alone never ended an engine."""
    served: bool = False
    """The log shows that the engine stood, and went on, or its start, in which nobody could ask it for anything."""


class Meaning(NamedTuple):
    """What a sentence says, whatever its numbers."""

    rows: tuple[FailureRow, ...]
    marks: frozenset[str]
    complains: bool
    """It looks like a cause, and no row knows it."""
    beside: frozenset[str] = frozenset()
    """Rows that are told from their neighbours by this line."""


ANSWERED = Meaning((), frozenset({"answered"}), complains=False)


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
    passed_over: int = 0
    """Lines that were not looked at, since the log holds too many different ones."""
    lines: int = 0
    bytes: int = 0
    before: tuple[tuple[int, int], ...] = ((0, 0),)
    """Where the last blocks begin: bytes and lines before them."""
    places: dict[int, tuple[int, int]] = field(default_factory=dict)
    """From where to read for what led up to a line, by its number."""
    head: str = ""
    tail: list[str] = field(default_factory=list)


def scan(log: BinaryIO, rows: Sequence[FailureRow]) -> Scan:
    seen, reader = Scan(), _Reader(rows)
    size = log.seek(0, SEEK_END)
    log.seek(0)
    block = b""
    for block in _blocks(log, size):
        if seen.bytes + len(block) >= size:
            reader.steps = max(reader.steps, _STEPS_AT_FIRST)
        if seen.bytes < HEAD_BYTES:
            seen.head += _head(block[: HEAD_BYTES - seen.bytes])
        reader.read(block, seen)
        seen.before = (*seen.before[-1:], (seen.bytes, seen.lines))
        seen.bytes += len(block)
        seen.lines += block.count(b"\n")
    seen.lines += bool(block) and not block.endswith(b"\n")
    seen.tail = _last_lines(log, size)
    reader.rejoin(seen)
    return seen


class _Reader:
    """The rows and the marks, made ready for many lines, and the sentences that are known already."""

    def __init__(self, rows: Sequence[FailureRow]) -> None:
        self.rows = rows
        self.beside = [(row.id, re.compile(row.beside)) for row in rows if row.beside is not None]
        signs = (*milestones.signs(), *(pattern.pattern for _, pattern in self.beside))
        self.sieve = _sieve((*(row.pattern for row in rows), *signs))
        self.signs = re.compile("|".join(f"(?:{pattern})" for pattern in signs))
        self.marks = [(mark.means, re.compile(mark.pattern)) for mark in milestones.marks()]
        self.mark_sieve = _sieve(tuple(mark.pattern for mark in milestones.marks()))
        self.idle: set[bytes] = set()
        self.loud: dict[bytes, list[Meaning | None]] = {}
        self.steps = _STEPS_AT_FIRST

    def read(self, block: bytes, seen: Scan) -> None:
        self.steps += _STEPS_A_BYTE * len(block)
        if self.steps <= 0:
            seen.passed_over += block.count(b"\n") or 1
            self._note_marks(block, seen)
            return
        if len(self.idle) + len(self.loud) >= _KEPT_SENTENCES:
            self.idle.clear()
            self.loud.clear()
        sentences = block.translate(None, _DIGITS).split(b"\n")
        fresh = set(sentences) - self.idle
        if max(map(len, fresh), default=0) > lines.LONGEST_BYTES:
            block = b"\n".join(map(lines.shortened, block.split(b"\n")))
            sentences = block.translate(None, _DIGITS).split(b"\n")
            fresh = set(sentences) - self.idle
        self.steps -= _STEPS_A_LINE * len(sentences)
        unknown = list(fresh - self.loud.keys())
        candidates = self._sifted(unknown, seen) if unknown else {}
        looked_at = (fresh & self.loud.keys()) | candidates.keys()
        if looked_at:
            raw = block.split(b"\n")
            for place in [place for place, sentence in enumerate(sentences) if sentence in looked_at]:
                self._look(sentences[place], raw[place], candidates, seen.lines + place + 1, seen)

    def _sifted(self, fresh: list[bytes], seen: Scan) -> dict[bytes, list[int]]:
        """New sentences that patterns may match, and which; the others are idle."""
        candidates: dict[bytes, list[int]] = {}
        joined = b"\n".join(fresh)
        self.steps -= len(joined) * len(self.sieve.needles) // _NEEDLES_A_STEP
        self.steps -= _STEPS_A_SENTENCE * len(fresh) + _STEPS_A_NEEDLE * joined.count(b"\x1b")
        for place, tried, numbers in self.sieve.kept(lines.without_colours(joined)):
            if self.steps <= 0:
                for at, _, marks in self.mark_sieve.kept(lines.without_colours(joined)):
                    candidates.setdefault(fresh[at], []).extend(len(self.rows) + number for number in marks)
                seen.passed_over += len(fresh) - len(candidates)
                return candidates
            self.steps -= _STEPS_A_NEEDLE * (1 + tried)
            if numbers:
                candidates.setdefault(fresh[place], []).extend(numbers)
        self._remember(sentence for sentence in fresh if sentence not in candidates)
        return candidates

    def _look(self, sentence: bytes, raw: bytes, candidates: dict[bytes, list[int]], number: int, seen: Scan) -> None:
        meanings = self.loud.get(sentence)
        if meanings is None and sentence in self.idle:
            return
        if meanings is None and self.steps <= 0:
            seen.passed_over += 1
            self._note_marks_of(raw, number, seen)
            return
        parts = lines.readable(raw)
        if meanings is None:
            meanings = [self.meaning(text, candidates[sentence]) for text in parts]
            if any(meanings) and all(meaning is None or meaning == ANSWERED for meaning in meanings):
                self._remember([sentence])  # one is enough
            elif _NUMBERS_MATTER.search(raw):
                pass
            elif not any(meanings):
                self._remember([sentence])
            elif len(self.loud) < _KEPT_SENTENCES and len(sentence) <= _LONGEST_SENTENCE:
                self.loud[sentence] = meanings
        for text, meaning in zip(parts, meanings, strict=False):
            if meaning is not None:
                note(meaning, text, number, seen)

    def meaning(self, text: str, candidates: Iterable[int]) -> Meaning | None:
        """None for a line that says nothing about a failure."""
        numbers = sorted(set(candidates))
        rows = self._claiming(text, numbers)
        if not rows and not (numbers[-1] >= len(self.rows) and self.signs.search(text)):
            return None
        means = frozenset(name for name, pattern in self.marks if pattern.search(text))
        complains = not rows and milestones.complains(text)
        beside = frozenset(name for name, pattern in self.beside if pattern.search(text))
        return Meaning(rows, means, complains, beside) if rows or means or complains or beside else None

    def _note_marks(self, block: bytes, seen: Scan) -> None:
        """Of lines that are passed over, whether the engine started, stood or ended: the last of them count."""
        raw = block.split(b"\n")
        kept = self.mark_sieve.kept(lines.without_colours(block).translate(None, _DIGITS))
        for place in sorted({place for place, _, numbers in kept if numbers})[-_MOST_MARKS:]:
            self._note_marks_of(raw[place], seen.lines + place + 1, seen)

    def _note_marks_of(self, raw: bytes, number: int, seen: Scan) -> None:
        for text in lines.readable(raw):
            if means := frozenset(name for name, pattern in self.marks if pattern.search(text)):
                note(Meaning((), means, complains=False), text, number, seen)

    def _claiming(self, text: str, numbers: Sequence[int]) -> tuple[FailureRow, ...]:
        """Last resorts are asked, and paid for, only where nothing closer claims the line."""
        last = [number for number in numbers if number < len(self.rows) and self.rows[number].tells in LAST_RESORTS]
        closer = [number for number in numbers if number not in set(last)]
        self.steps -= _STEPS_A_LOOK + self._price(text, closer)
        rows = matching_rows(text, [self.rows[number] for number in closer if number < len(self.rows)])
        if last and not any(row.tells in ENOUGH for row in rows):
            self.steps -= self._price(text, last)
            rows = matching_rows(text, [self.rows[number] for number in numbers if number < len(self.rows)])
        return rows

    def _price(self, text: str, numbers: Sequence[int]) -> int:
        return sum(_STEPS_A_PATTERN + len(text) * self.sieve.starts_in(text, number) for number in numbers)

    def rejoin(self, seen: Scan) -> None:
        """Of a text that somebody pasted, the lines that were broken, if the whole tells more than a half."""
        told = min(
            (SPECIFICITY_ORDER[hit.row.tells] for hit in seen.hits.values() if hit.row.alarms),
            default=len(SPECIFICITY_ORDER),
        )
        if seen.bytes > HEAD_BYTES or not told:
            return
        texts = [text for raw in seen.head.encode().split(b"\n") for text in (lines.readable(raw) or [""])[-1:]]
        wholes = list(rejoin_lines(self._of_the_last_start(texts)))
        if not wholes:
            return
        for at, numbers in self._worth_a_look([text for _, text in wholes]).items():
            place, text = wholes[at]
            alone = texts[place : place + _MOST_PIECES + _MOST_BETWEEN]
            for row in matching_rows(
                text, [self.rows[number] for number in sorted(numbers) if number < len(self.rows)]
            ):
                new = row.id not in seen.hits and not any(map(row.matches, alone))
                if new and SPECIFICITY_ORDER[row.tells] < told:
                    note(Meaning((row,), frozenset(), complains=False), text, place + 1, seen)

    def _of_the_last_start(self, texts: list[str]) -> list[str]:
        """What an earlier life said, or this one before it was ready, is left blank: places stay."""
        begins = [pattern for means, pattern in self.marks if means in ("start", "ready")]
        last = max((at for at, text in enumerate(texts) if any(begin.search(text) for begin in begins)), default=0)
        return [""] * last + texts[last:]

    def _worth_a_look(self, texts: list[str]) -> dict[int, set[int]]:
        """Places of texts that rows may claim, and the rows' numbers."""
        candidates: dict[int, set[int]] = {}
        for place, _, numbers in self.sieve.kept("\n".join(texts).encode().translate(None, _DIGITS)):
            candidates.setdefault(place, set()).update(numbers)
        return dict(sorted(candidates.items()))

    def _remember(self, sentences: Iterable[bytes]) -> None:
        short = (sentence for sentence in sentences if len(sentence) <= _LONGEST_SENTENCE)
        self.idle.update(islice(short, max(0, _KEPT_SENTENCES - len(self.idle))))


@cache
def _sieve(patterns: tuple[str, ...]) -> PatternPrefilter:
    return PatternPrefilter(patterns)


def note(meaning: Meaning, text: str, number: int, seen: Scan) -> None:
    """What this line changes in what is known."""
    if "start" in meaning.marks:  # what an earlier life died of is not the question
        seen.hits, seen.errors, seen.dying, seen.ready, seen.ending = {}, [], None, False, False
        seen.beside, seen.places = set(), {}
        seen.starts += 1
    if "ready" in meaning.marks:  # whatever was said before, it did not end this start
        seen.errors, seen.dying, seen.ready, seen.ending = [], None, True, False
        seen.hits = {code: hit for code, hit in seen.hits.items() if hit.row.severity in OUTLASTING}
    if "answered" in meaning.marks and not (seen.ready or seen.starts):  # its beginning was cut off
        seen.errors, seen.dying, seen.ready = [], None, True
        seen.hits = {code: hit for code, hit in seen.hits.items() if hit.row.severity in (*OUTLASTING, "request")}
    seen.beside |= meaning.beside
    seen.ending = seen.ending or "shutdown" in meaning.marks
    if seen.ending:  # what falls while it is taken down on request was not the cause of anything
        return
    for row in meaning.rows:
        hit = seen.hits.get(row.id)
        if hit is None:
            hit = seen.hits[row.id] = Hit(row, _sighting(text, number, seen), _words(row, text), quiet=True)
        hit.count += 1
        hit.quiet = hit.quiet and _is_quiet(row, text)
        if len(hit.ranks) < _KEPT_RANKS and (rank := lines.rank_of(text)):
            hit.ranks[rank] = None
    if "death" in meaning.marks and seen.dying is None:
        seen.dying = _sighting(text, number, seen)
    if meaning.complains and len(seen.errors) < _KEPT_ERRORS:
        seen.errors.append(_sighting(text, number, seen))


def _is_quiet(row: FailureRow, text: str) -> bool:
    """Of a line without a level only a row that knows the very line can say that it ended an engine."""
    if milestones.says_failed(text):
        return False
    return lines.is_quiet(text) or (row.tells not in _OF_ONE_LINE and lines.tells_no_level(text))


def _sighting(text: str, number: int, seen: Scan) -> Sighting:
    seen.places[number] = seen.before[0]
    shown = text if len(text) <= _SHOWN_CHARACTERS else f"{text[:1000]} … {text[-1000:]}"
    return Sighting(number=number, rank=lines.rank_of(text), text=shown)


def _words(row: FailureRow, text: str) -> dict[str, str]:
    match = row.match(text)
    return {name: captured for name, captured in match.groupdict().items() if captured is not None} if match else {}


def _head(block: bytes) -> str:
    return b"\n".join(map(lines.shortened, lines.without_colours(block).split(b"\n"))).decode("utf-8", "replace")


def _blocks(log: BinaryIO, size: int) -> Iterator[bytes]:
    """Whole lines, some at a time; the last lines by themselves, a line without an end in pieces."""
    rest, taken = b"", 0
    while more := log.read(BLOCK_BYTES):
        taken += len(more)
        block = rest + more
        if taken >= size:
            break
        end = block.rfind(b"\n") + 1 or (len(block) if len(block) > _LONGEST_PIECE_BYTES else 0)
        rest = block[end:]
        if end:
            yield block[:end]
    else:
        block = rest
    ending = len(b"\n".join(block.split(b"\n")[-_END_LINES:]))
    yield from filter(None, (block[: len(block) - ending], block[len(block) - ending :]))


def _last_lines(log: BinaryIO, size: int) -> list[str]:
    """The last lines that say anything."""
    log.seek(max(0, size - TAIL_BYTES))
    return [shown for raw in log.read(TAIL_BYTES).split(b"\n") for shown in lines.readable(raw)][-200:]


_SPACES = re.compile(r"[ \t\u00a0]{2,}|\u00a0")
_OF_ONE_LINE = ("cause", "consequence")
LAST_RESORTS = ("topic", "refusal")
"""They are asked only about a line that nothing closer claims."""
ENOUGH = ("cause", "class", "family")


def matching_rows(text: str, rows: Iterable[FailureRow]) -> tuple[FailureRow, ...]:
    """A row that knows the very line goes before one that knows its class, and so on down to how engines refuse.
    What calls itself a warning belongs to rows that know it; but a lost request is often logged as one."""
    rows = tuple(rows)
    readings = tuple(dict.fromkeys((text, plain_message(text))))
    claiming = [row for row in rows if row.tells not in LAST_RESORTS and any(map(row.matches, readings))]
    if not any(row.tells in ENOUGH for row in claiming):
        claiming += [row for row in rows if row.tells in LAST_RESORTS and any(map(row.matches, readings))]
    if len(claiming) > 1 or (claiming and claiming[0].tells != "cause"):
        claiming = _most_telling(claiming, text)
    return tuple(claiming)


def plain_message(text: str) -> str:
    """What was said, with single spaces."""
    return _SPACES.sub(" ", lines.message_of(text)).strip()


def _most_telling(claiming: Sequence[FailureRow], text: str) -> list[FailureRow]:
    harmless, told = lines.is_harmless(text), not lines.is_information(text)
    standing = [
        row for row in claiming if not harmless or row.tells in _OF_ONE_LINE or (told and row.severity == "request")
    ]
    best = min((SPECIFICITY_ORDER[row.tells] for row in standing), default=0)
    return [row for row in standing if SPECIFICITY_ORDER[row.tells] == best]


MOST_LINES = 2_000
_MOST_PIECES = 6
_MOST_BETWEEN = 3
"""Lines of others that may stand between the halves of a broken one."""
_OF_A_TRACEBACK = re.compile(r"^(?:Traceback \(most recent call last\)|\s*File \"|\s*[\^~]+\s*$|\s+\w+.*[(=])")


def rejoin_lines(texts: Sequence[str]) -> Iterator[tuple[int, str]]:
    """The place of the first half (from 0) and the whole, with a space where it was broken and without one."""
    for place, text in enumerate(texts[:MOST_LINES]):
        if lines.is_harmless(text):
            continue
        pieces = [
            lines.message_of(text).strip(),
            *_rest_of(text, texts[place + 1 : place + _MOST_PIECES + _MOST_BETWEEN]),
        ]
        if len(pieces) > 1 and pieces[0]:
            yield place, " ".join(pieces)
            yield place, "".join(pieces)


def _rest_of(first: str, texts: Sequence[str]) -> list[str]:
    """The pieces that go on what was broken off, past what another process quietly logged in between."""
    pieces: list[str] = []
    between = 0
    for following in texts:
        if _goes_on(following, first):
            pieces.append(lines.message_of(following).strip())
        elif between < _MOST_BETWEEN and lines.starts_a_line(following) and lines.is_harmless(following):
            between += 1
        else:
            break
    return pieces[: _MOST_PIECES - 1]


def _goes_on(following: str, first: str) -> bool:
    """A half that has no beginning of its own, or the next line of what the same process says."""
    plain = lines.message_of(following)
    if not plain.strip() or _OF_A_TRACEBACK.match(plain) or milestones.EXCEPTION.match(plain):
        return False
    return not lines.starts_a_line(following) or (
        lines.starts_a_line(first) and lines.rank_of(following) == lines.rank_of(first)
    )
