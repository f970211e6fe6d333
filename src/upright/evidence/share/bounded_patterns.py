"""Bounds the time of a stranger's regular expression; refused before it is ever tried.

Trying shows that a pattern was quick on what was tried. Here every way through it is counted: starts times the lengths
that each repeat may take, on the longest line that a log is cut to. What cannot be counted is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from re import _parser  # type: ignore[attr-defined]
from typing import Any

from upright.serving.diagnose.lines import LONGEST_BYTES

MOST_WAYS = (LONGEST_BYTES + 1) ** 2
"""One gap without an end costs starts times lengths, 0.16 s at most as measured; a second a thousand times that."""
LONGEST_PATTERN = 400
_PLAIN = frozenset({"LITERAL", "NOT_LITERAL", "ANY", "IN", "AT", "CATEGORY"})
_REPEATS = frozenset({"MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"})


def refusal(pattern: str) -> str | None:
    """Why a stranger's pattern is not taken; None if its time on a line is bounded."""
    if len(pattern) > LONGEST_PATTERN:
        return f"its pattern has {len(pattern):,} characters, and {LONGEST_PATTERN} are the most"
    try:
        tree = _parser.parse(pattern)
        re.compile(pattern)
    except (re.error, RecursionError, OverflowError):
        return "its pattern is no regular expression"
    ways = _ways(tree)
    if ways is None:
        return "its pattern repeats a repeat, or refers back: no bound on its time is known"
    if LONGEST_BYTES * ways > MOST_WAYS:
        return "its pattern has too many ways to go on a long line: bound its gaps, as .{0,80}"
    return None


def _ways(tree: Iterable[Any]) -> int | None:
    """Ways to go on from one place; None if they cannot be counted."""
    product = 1
    for operator, argument in tree:
        inner = _part(str(operator), argument)
        if inner is None or product * inner > MOST_WAYS:
            return None if inner is None else MOST_WAYS
        product *= inner
    return product


def _part(name: str, argument: Any) -> int | None:
    if name in _PLAIN:
        return 1
    if name in ("SUBPATTERN", "ATOMIC_GROUP"):
        return _ways(argument[-1] if name == "SUBPATTERN" else argument)
    if name in ("ASSERT", "ASSERT_NOT"):
        return _ways(argument[1])
    if name == "BRANCH":
        branches = [_ways(branch) for branch in argument[1]]
        known = [ways for ways in branches if ways is not None]
        return sum(known) if len(known) == len(branches) else None
    if name in _REPEATS:
        return _repeated(*argument)
    return None


def _repeated(fewest: int, most: int, tree: Iterable[Any]) -> int | None:
    inner = _ways(tree)
    lengths = min(int(most), LONGEST_BYTES) - min(int(fewest), LONGEST_BYTES) + 1
    if inner == 1:
        return lengths
    if inner is None or int(most) > LONGEST_BYTES:
        return None
    ways = 1
    for _ in range(int(most)):
        ways = ways * inner + 1
        if ways > MOST_WAYS:
            return MOST_WAYS
    return ways
