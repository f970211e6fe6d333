"""Versions of engines: parsed, compared, and tested against a range.

Rows carry ranges as data: `>=0.18,<0.26`, `<=0.32.0`, `==b11669`, `*`. The same spelling serves compute capabilities:
`>=12.0,<13`, or a name: `==gfx942`, `==apple*`. Anything after the numbers (`.post1`, `rc2`, `+cpu`) is compared only
where it changes the order.
"""

from __future__ import annotations

import re
from functools import cache

_NUMBERS = re.compile(r"[vb]?(\d+(?:\.\d+)*)((?:[.+\-]?[a-z][\w.+\-]*)?)", re.IGNORECASE)
_CLAUSE = re.compile(r"(>=|<=|==|!=|<|>)\s*(\S+)")
_BEFORE = re.compile(r"^[.\-]?(a|alpha|b|beta|rc|dev|pre)", re.IGNORECASE)
_AFTER = re.compile(r"^[.\-]?post(\d+)", re.IGNORECASE)

Version = tuple[tuple[int, ...], int]
_NAME: Version = ((), 0)
"""What is no version: equal to none, and compared by its text."""


@cache
def parse(text: str) -> Version:
    """`0.32.0`, `v0.5.8.post1`, `0.28.0rc2`, `b11669`, `12.0`; trailing zeros do not count."""
    match = _NUMBERS.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not a version")
    numbers = [int(part) for part in match[1].split(".")]
    while len(numbers) > 1 and numbers[-1] == 0:
        numbers.pop()
    rest = match[2]
    if _BEFORE.match(rest):
        return tuple(numbers), -1
    after = _AFTER.match(rest)
    return tuple(numbers), int(after[1]) + 1 if after else 0


@cache
def clauses(range_: str) -> tuple[tuple[str, Version], ...]:
    """The range's comparisons; none for `*`."""
    if range_.strip() == "*":
        return ()
    comparisons = []
    for part in range_.split(","):
        match = _CLAUSE.fullmatch(part.strip())
        if match is None:
            raise ValueError(f"{range_!r} is not a range; write '*' or comparisons such as '>=0.18,<0.26'")
        comparisons.append((match[1], _end(match[1], match[2])))
    return tuple(comparisons)


def _end(sign: str, text: str) -> Version:
    """A name (`==gfx942`) can only be equal."""
    try:
        return parse(text)
    except ValueError:
        if sign == "==":
            return _NAME
        raise


def bound(range_: str, sign: str) -> str | None:
    """The version that stands after this sign, as it is written; None if the range has no such end."""
    matches = (_CLAUSE.fullmatch(part.strip()) for part in range_.split(","))
    return next((match[2] for match in matches if match and match[1] == sign), None)


def in_range(version: str, range_: str) -> bool:
    """Whether every comparison of the range holds. A version that cannot be ordered (a commit) is inside `*` alone."""
    if not (comparisons := clauses(range_)) or _named(version, range_.strip()):
        return True
    try:
        ours = parse(version)
    except ValueError:
        return False
    return all(_holds(ours, sign, other) for sign, other in comparisons)


def _named(name: str, range_: str) -> bool:
    """`==gfx942`, or every name that begins so: `==apple*`."""
    if not range_.startswith("=="):
        return False
    wanted = range_[2:]
    return name.startswith(wanted[:-1]) if wanted.endswith("*") else name == wanted


def _holds(ours: Version, sign: str, other: Version) -> bool:
    match sign:
        case ">=":
            return ours >= other
        case "<=":
            return ours <= other
        case ">":
            return ours > other
        case "<":
            return ours < other
        case "==":
            return ours == other
        case _:
            return ours != other
