"""A line -> the rows of the catalogue that claim it: the most telling ones only.

A line is held against a row only if it has one of the plain pieces of text that the row's pattern cannot do without;
those are read out of the pattern, so that there is no second list to keep.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from re import _parser  # type: ignore[attr-defined]
from typing import Any

from upright.catalog.rows.failure import TELLING, FailureRow
from upright.diagnosing import lines

_SPACES = re.compile(r"[ \t\u00a0]{2,}|\u00a0")
_SHORTEST = 3
"""A piece of text shorter than this sieves nothing out."""


class Matcher:
    """Rows, made ready for many lines."""

    def __init__(self, rows: Sequence[FailureRow]) -> None:
        self._sieve = [(row, needles(row.pattern)) for row in rows]

    def claims(self, text: str, among: Iterable[FailureRow] | None = None) -> tuple[FailureRow, ...]:
        """A row that knows the very line goes before one that knows its class, and that before one that knows only
        how engines refuse. A line that says of itself that it is a warning belongs to rows of the first kind alone."""
        readings = tuple(dict.fromkeys((text, plain(text))))
        if among is None:
            folded = readings[0].lower() if len(readings) == 1 else "\n".join(readings).lower()
            among = [row for row, pieces in self._sieve if not pieces or any(piece in folded for piece in pieces)]
        claiming = [row for row in among if any(map(row.matches, readings))]
        if len(claiming) > 1 or (claiming and claiming[0].tells != "cause"):
            claiming = _most_telling(claiming, text)
        return tuple(claiming)


def plain(text: str) -> str:
    """What was said, with single spaces."""
    return _SPACES.sub(" ", lines.said(text)).strip()


def needles(pattern: str) -> tuple[str, ...]:
    """Pieces of text, in small letters, one of which every match holds; none if the pattern does without any."""
    pieces = _pieces(_parser.parse(pattern))
    return tuple(sorted(pieces)) if pieces and min(map(len, pieces)) >= _SHORTEST else ()


def _most_telling(claiming: Iterable[FailureRow], text: str) -> list[FailureRow]:
    harmless = lines.is_harmless(text)
    standing = [row for row in claiming if row.tells in ("cause", "consequence") or not harmless]
    best = min((TELLING[row.tells] for row in standing), default=0)
    return [row for row in standing if TELLING[row.tells] == best]


def _pieces(parsed: Iterable[tuple[Any, Any]]) -> set[str]:
    """Of everything that must be there, the one whose shortest piece is longest."""
    best: set[str] = set()
    run = ""
    for operation, argument in parsed:
        if operation is _parser.LITERAL:
            run += chr(argument).lower()
            continue
        best, run = _longer(best, {run}), ""
        best = _longer(best, _inner(operation, argument))
    return _longer(best, {run})


def _inner(operation: Any, argument: Any) -> set[str]:
    if operation is _parser.SUBPATTERN:
        return _pieces(argument[-1])
    if operation is _parser.BRANCH:
        branches = [_pieces(branch) for branch in argument[1]]
        return set().union(*branches) if all(branches) else set()
    if operation in (_parser.MAX_REPEAT, _parser.MIN_REPEAT) and argument[0] > 0:
        return _pieces(argument[2])
    return set()


def _longer(one: set[str], other: set[str]) -> set[str]:
    return max((one, other), key=lambda pieces: min(map(len, pieces), default=0))
