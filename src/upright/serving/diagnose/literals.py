"""Literal texts that every match of a regular expression holds: a fast filter before the pattern is tried.

Finding a text takes the same time whatever a line holds; trying a pattern does not, and tries everywhere.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from heapq import heapify, heappop, heappush
from itertools import accumulate
from re import _parser  # type: ignore[attr-defined]
from typing import Any

RequiredTexts = tuple[str, ...]
"""Texts that a match holds, in small letters and in their order."""

_SHORTEST = 3
_NEEDLE_CHARACTERS = 4
_MOST_REPEATS = 32
_SAID_OFTEN = (
    "valueerror: ", "runtimeerror: ", "assertionerror: ", "typeerror: ", "exception: ", " error: ", "errors ",
    "not supported", " does not ", " is not ", " not found", " failed to ", " requires ", " must be ", " cannot ",
    " should be ", " available ", " memory ", "warning", " unknown ", " invalid ", " with the ", " version ", "kernel",
    "expected ", " process ", "tokens", "loading ", "server", " engine", " cache ", " model ", "request", "timeout",
)  # fmt: skip
"""What many lines hold and many patterns ask for: worth looking for only where a pattern has nothing else."""
_BREAKS = re.compile(r"[\d\t\u00a0\"\\<>&]+| {2,}")
"""What a sentence lacks, has fewer of, or has in another spelling: digits, spaces, what JSON escapes."""


def required_texts(pattern: str) -> list[RequiredTexts] | None:
    """What matches hold, one way for each alternative; None if some match holds no text worth looking for."""
    ways = [_folded(way) for way in _ways(_parser.parse(pattern))]
    return ways if all(_longest(way) >= _SHORTEST for way in ways) else None


class PatternPrefilter:
    """Patterns, ready to be held against many sentences: lines without their digits."""

    def __init__(self, patterns: Sequence[str]) -> None:
        self.always: list[int] = []
        """Patterns that may match without any text."""
        wanted: list[tuple[int, RequiredTexts]] = []
        for number, pattern in enumerate(patterns):
            if (ways := required_texts(pattern)) is None:
                self.always.append(number)
            else:
                wanted += [(number, way) for way in ways]
        self.first_texts: dict[int, list[str]] = {}
        for number, way in wanted:
            self.first_texts.setdefault(number, []).append(way[0])
        self.needles: dict[bytes, list[tuple[int, tuple[bytes, ...]]]] = {
            needle.encode(): [(number, tuple(text.encode() for text in way)) for number, way in behind]
            for needle, behind in _cover(wanted).items()
        }

    def kept(self, sentences: bytes) -> Iterator[tuple[int, int, list[int]]]:
        """The place of a sentence, how many patterns were thought of, and those that may match it.

        A sentence can come several times.
        """
        sentences = _single_spaced(sentences.lower())
        apart = sentences.split(b"\n")
        if self.always:
            yield from ((place, len(self.always), self.always) for place in range(len(apart)))
        starts = list(accumulate((len(sentence) + 1 for sentence in apart), initial=0))
        for needle, behind in self.needles.items():
            at = sentences.find(needle)
            while at >= 0:
                place = bisect_right(starts, at) - 1
                yield place, len(behind), [number for number, way in behind if _in_order(apart[place], way)]
                at = sentences.find(needle, starts[place + 1])

    def starts_in(self, text: str, number: int) -> int:
        """How often a pattern may begin to match there, and go on to the end of the text in vain."""
        if number in self.always:
            return len(text)
        folded = text.lower()
        return max(1, sum(folded.count(first) for first in self.first_texts[number]))


def _ways(tree: Iterable[Any]) -> list[RequiredTexts]:
    texts, choices, run = [], [], ""
    for operator, argument in tree:
        name = str(operator)
        if name == "LITERAL":
            run += chr(argument)
        elif name not in ("AT", "ASSERT", "ASSERT_NOT"):
            texts.append(run)
            run = ""
            inner = _inner(name, argument)
            if len(inner) == 1:
                texts += inner[0]
            elif inner:
                choices.append(inner)
    way = tuple(text for text in (*texts, run) if text)
    if choices and _longest(_folded(way)) < _SHORTEST:
        return max(choices, key=lambda ways: min(_longest(_folded(inner)) for inner in ways))
    return [way]


def _inner(name: str, argument: Any) -> list[RequiredTexts]:
    """Ways through a part of a pattern; none if the part may be empty or holds no text."""
    if name == "SUBPATTERN":
        return _ways(argument[-1])
    if name == "BRANCH":
        return [way for branch in argument[1] for way in _ways(branch)]
    if name in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT") and argument[0]:
        fewest, _, tree = argument
        if len(tree) == 1 and str(tree[0][0]) == "LITERAL":
            return [(chr(tree[0][1]) * min(fewest, _MOST_REPEATS),)]
        return _ways(tree)
    return []


def _folded(way: RequiredTexts) -> RequiredTexts:
    """As a sentence would have it; two spaces that digits stood between are one."""
    folded: list[str] = []
    for piece in (piece for text in way for piece in _BREAKS.split(text.lower())):
        alone = piece.removeprefix(" ") if folded and folded[-1].endswith(" ") else piece
        folded += [alone] if alone else []
    return tuple(folded)


def _longest(way: RequiredTexts) -> int:
    return max(map(len, way), default=0)


def _cover(wanted: list[tuple[int, RequiredTexts]]) -> dict[str, list[tuple[int, RequiredTexts]]]:
    """A few short texts, chosen greedily, so that each way holds one of them: more ways hardly take more of them."""
    holders: dict[str, set[int]] = {}
    for place, (_, way) in enumerate(wanted):
        parts = {part for text in way for part in _parts(text)}
        for part in parts - _COMMON or parts:
            holders.setdefault(part, set()).add(place)
    queue = [(-len(places), -len(part), part) for part, places in holders.items()]
    heapify(queue)
    needles: dict[str, list[tuple[int, RequiredTexts]]] = {}
    covered: set[int] = set()
    while len(covered) < len(wanted):
        count, length, part = heappop(queue)
        behind = holders[part] - covered
        if len(behind) < -count:  # others have taken some of its ways since
            heappush(queue, (-len(behind), length, part))
            continue
        needles[part] = [wanted[place] for place in sorted(behind)]
        covered |= behind
    return needles


def _parts(text: str) -> Iterator[str]:
    for at in range(max(1, len(text) - _NEEDLE_CHARACTERS + 1) if len(text) >= _SHORTEST else 0):
        yield text[at : at + _NEEDLE_CHARACTERS]


_COMMON = {part for text in _SAID_OFTEN for part in _parts(text)}


def _single_spaced(sentences: bytes) -> bytes:
    sentences = sentences.replace(b"\t", b" ").replace(b"\xc2\xa0", b" ")
    while b"  " in sentences:
        sentences = sentences.replace(b"  ", b" ")
    return sentences


def _in_order(sentence: bytes, way: tuple[bytes, ...]) -> bool:
    at = 0
    for text in way:
        at = sentence.find(text, at)
        if at < 0:
            return False
        at += len(text)
    return True
