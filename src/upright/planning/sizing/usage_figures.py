"""Usage of one kind of user, from a catalogue row and what the person says instead, each figure with its basis."""

from __future__ import annotations

import math
from collections.abc import Mapping
from difflib import get_close_matches

from upright.base.errors import UsageError
from upright.facts.catalog.rows.usage import HabitFact, UsageRow
from upright.facts.records.base import Figure
from upright.planning.sizing.usage import Habit, Usage, cut_mean

NAMES = (
    "shared_tokens", "opening_tokens", "turn_tokens", "answer_tokens", "turns", "turns_a_request", "tool_seconds",
    "thinking_seconds", "hours_between_failures", "repair_seconds",
)  # fmt: skip

_WIDEST = 4.0
"""No habit of people spreads more than this sigma: the mean would be three thousand medians."""


def usage_figures(row: UsageRow, said: Mapping[str, float]) -> dict[str, Figure]:
    """The means, by name."""
    for name, figure in said.items():
        if name not in NAMES:
            near = get_close_matches(name, NAMES, n=1, cutoff=0.4)
            raise UsageError(
                f"no habit named {name}", hint=f"did you mean {near[0]}?" if near else f"one of {', '.join(NAMES)}"
            )
        if figure < 0 or (figure == 0 and not name.endswith("_seconds") and name != "shared_tokens"):
            raise UsageError(f"{name} cannot be {figure:g}")
    return {name: _figure(row, name, said) for name in NAMES}


def usage_of(row: UsageRow, figures: Mapping[str, Figure], longest_tokens: int) -> Usage:
    """What is said instead of the row's mean scales what the row says, its spread and its longest included."""

    def habit(name: str) -> Habit:
        fact: HabitFact = getattr(row, name)
        mean = _value(figures, name)
        most = fact.most * mean / fact.value if fact.most and fact.value else math.inf
        return Habit(mean, spread(fact), most) if mean else Habit(0.0)

    return Usage(
        shared_tokens=min(int(_value(figures, "shared_tokens")), longest_tokens // 2),
        opening_tokens=habit("opening_tokens"),
        turn_tokens=habit("turn_tokens"),
        answer_tokens=habit("answer_tokens"),
        turns=habit("turns"),
        tool_seconds=habit("tool_seconds"),
        thinking_seconds=habit("thinking_seconds"),
        turns_a_request=_value(figures, "turns_a_request"),
        longest_tokens=longest_tokens,
    )


def spread(fact: HabitFact) -> float:
    """The sigma of a log-normal with this median that has this mean once it is cut at the most."""
    if not fact.median or not fact.value or fact.value <= fact.median:
        return 0.0
    if fact.most is None:
        return math.sqrt(2 * math.log(fact.value / fact.median))
    low, high = 1e-6, _WIDEST
    for _ in range(60):
        sigma = (low + high) / 2
        low, high = (sigma, high) if cut_mean(math.log(fact.median), sigma, fact.most) < fact.value else (low, sigma)
    return (low + high) / 2


def _figure(row: UsageRow, name: str, said: Mapping[str, float]) -> Figure:
    fact: HabitFact = getattr(row, name)
    if name in said:
        return Figure(value=said[name], basis="assumed", source="as you say")
    note = f" ({fact.note})" if fact.note else ""
    return Figure(value=fact.value, basis="assumed" if fact.assumed else "catalog", source=f"{fact.source}{note}")


def _value(figures: Mapping[str, Figure], name: str) -> float:
    number = figures[name].value
    assert number is not None
    return float(number)
