"""Seconds that a person waits: for a first answer, for a turn whose prefix is cached, for a context that is read again.

Where several ask at once their prompts are read one after another, and the last of them is meant.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from upright.base.units import format_duration
from upright.facts.records.base import Basis
from upright.facts.records.plan import Rate, Seconds, Turn
from upright.planning.speed.speed_band import RateBand

FIRST_PROMPT_TOKENS = 20_000
"""What a coding agent sends before it asks anything: its instructions, its tools, some files."""
NEW_TOKENS, ANSWER_TOKENS = 1_200, 500
"""Of a turn in the middle of its work: what a tool brought, and what is answered."""


def turn(
    users: int,
    context_tokens: int,
    read: Callable[[int, int], float | None],
    band: RateBand,
    decode: Rate,
    basis: Basis,
) -> Turn | None:
    """`read` is the seconds of so many new tokens behind so many that are cached; None where that is not known."""
    first, whole = read(min(FIRST_PROMPT_TOKENS, context_tokens), 0), read(context_tokens, 0)
    new = read(NEW_TOKENS, context_tokens // 2)
    if first is None or whole is None:
        return None
    return Turn(
        users=users,
        first_answer=_read(users * first, band),
        warm=None if new is None else _together(_read(users * new, band), _answered(decode)),
        full_context=_read(users * whole, band),
        basis=basis,
    )


def seconds_words(found: Seconds | None) -> str:
    """`13 s (8.0 s-25 s)`, or only the band."""
    if found is None:
        return "not known"
    low, high = format_duration(found.low), format_duration(found.high)
    return f"{low}-{high}" if found.best is None else f"{format_duration(found.best)} ({low}-{high})"


def expected_seconds(found: Seconds) -> float:
    return found.best if found.best is not None else found.high


def _read(seconds: float, band: RateBand) -> Seconds:
    return Seconds(best=_round(seconds), low=_round(seconds / band.high), high=_round(seconds / band.low))


def _answered(rate: Rate) -> Seconds:
    best = None if rate.best is None else ANSWER_TOKENS / rate.best
    return Seconds(best=best, low=ANSWER_TOKENS / rate.high, high=ANSWER_TOKENS / rate.low)


def _together(read: Seconds, answered: Seconds) -> Seconds:
    """One after the other; what is off with one is not with the other."""
    middle = answered.best if answered.best is not None else math.sqrt(answered.low * answered.high)
    both = (read.best or 0.0) + middle
    low = both - math.hypot((read.best or 0.0) - read.low, middle - answered.low)
    high = both + math.hypot(read.high - (read.best or 0.0), answered.high - middle)
    return Seconds(best=None if answered.best is None else _round(both), low=_round(low), high=_round(high))


def _round(seconds: float) -> float:
    return float(f"{seconds:.3g}")
