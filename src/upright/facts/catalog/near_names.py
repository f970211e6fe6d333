"""Suggestions for a name that is not known."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches

_LEAST_PART = 4
"""Letters: a shorter name is a part of too many others."""


def near_names(name: str, known: Iterable[str], count: int = 4) -> tuple[str, ...]:
    """First those that begin with it, then those spelled alike, then parts of it, then those that hold it."""
    wanted = as_id(name)
    spelled = {as_id(candidate): candidate for candidate in known}
    begins = sorted(candidate for candidate in spelled if candidate.startswith(wanted)) if wanted else []
    close = get_close_matches(wanted, spelled, n=count, cutoff=0.6)
    parts = sorted((candidate for candidate in spelled if part_of(candidate, wanted)), key=len, reverse=True)
    holds = sorted((candidate for candidate in spelled if wanted and _holds(candidate, wanted)), key=len)
    return tuple(spelled[candidate] for candidate in dict.fromkeys([*begins, *close, *parts, *holds]))[:count]


def part_of(part: str, name: str) -> bool:
    """As words of it: m3-ultra is a part of Mac Studio M3 Ultra 512GB."""
    return len(part) >= _LEAST_PART and _holds(as_id(name), as_id(part))


def _holds(name: str, part: str) -> bool:
    return part in name and re.search(rf"(?<![a-z0-9]){re.escape(part)}(?![a-z0-9])", name) is not None


def as_id(name: str) -> str:
    """As ids are written: `8x RTX PRO 6000` is 8x-rtx-pro-6000."""
    return "-".join(name.lower().split())
