"""A line -> the rows of the catalogue that claim it: the most telling ones only."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from upright.facts.catalog.rows.failure import TELLING, FailureRow
from upright.serving.diagnose import lines

_SPACES = re.compile(r"[ \t\u00a0]{2,}|\u00a0")
_OF_ONE_LINE = ("cause", "consequence")
LAST_RESORTS = ("topic", "refusal")
"""They are asked only about a line that nothing closer claims."""
ENOUGH = ("cause", "class", "family")


def claims(text: str, rows: Iterable[FailureRow]) -> tuple[FailureRow, ...]:
    """A row that knows the very line goes before one that knows its class, and so on down to how engines refuse.
    What calls itself a warning belongs to rows that know it; but a lost request is often logged as one."""
    rows = tuple(rows)
    readings = tuple(dict.fromkeys((text, plain(text))))
    claiming = [row for row in rows if row.tells not in LAST_RESORTS and any(map(row.matches, readings))]
    if not any(row.tells in ENOUGH for row in claiming):
        claiming += [row for row in rows if row.tells in LAST_RESORTS and any(map(row.matches, readings))]
    if len(claiming) > 1 or (claiming and claiming[0].tells != "cause"):
        claiming = _most_telling(claiming, text)
    return tuple(claiming)


def plain(text: str) -> str:
    """What was said, with single spaces."""
    return _SPACES.sub(" ", lines.said(text)).strip()


def _most_telling(claiming: Sequence[FailureRow], text: str) -> list[FailureRow]:
    harmless, told = lines.is_harmless(text), not lines.is_information(text)
    standing = [
        row for row in claiming if not harmless or row.tells in _OF_ONE_LINE or (told and row.severity == "request")
    ]
    best = min((TELLING[row.tells] for row in standing), default=0)
    return [row for row in standing if TELLING[row.tells] == best]
