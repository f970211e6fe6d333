"""A name that nothing answers to -> names that were perhaps meant."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches


def near(name: str, known: Iterable[str], count: int = 4) -> tuple[str, ...]:
    """First those that begin with it, then those spelled alike, then those that hold it as a word."""
    wanted = bare(name)
    spelled = {bare(candidate): candidate for candidate in known}
    begins = sorted(candidate for candidate in spelled if candidate.startswith(wanted)) if wanted else []
    close = get_close_matches(wanted, spelled, n=count, cutoff=0.6)
    word = re.compile(rf"(?<![a-z0-9]){re.escape(wanted)}(?![a-z0-9])")
    holds = sorted((candidate for candidate in spelled if wanted and word.search(candidate)), key=len)
    return tuple(spelled[candidate] for candidate in dict.fromkeys([*begins, *close, *holds]))[:count]


def bare(name: str) -> str:
    """As ids are written: `8x RTX PRO 6000` is 8x-rtx-pro-6000."""
    return "-".join(name.lower().split())
