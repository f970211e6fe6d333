"""A row of what people do + what the person says instead -> Usage, and every figure with its basis."""

from __future__ import annotations

import math
from collections.abc import Mapping
from difflib import get_close_matches

from upright.catalog.rows.usage import HabitFact, UsageRow
from upright.errors import UsageError
from upright.records.base import Figure
from upright.sizing.usage import Habit, Usage

NAMES = (
    "shared_tokens", "opening_tokens", "turn_tokens", "answer_tokens", "turns", "turns_a_request", "tool_seconds",
    "thinking_seconds", "hours_between_failures", "repair_seconds",
)  # fmt: skip


def figures_of(row: UsageRow, said: Mapping[str, float]) -> dict[str, Figure]:
    """The means, by name."""
    for name, value in said.items():
        if name not in NAMES:
            near = get_close_matches(name, NAMES, n=1, cutoff=0.4)
            raise UsageError(
                f"no habit named {name}", hint=f"did you mean {near[0]}?" if near else f"one of {', '.join(NAMES)}"
            )
        if value < 0 or (value == 0 and not name.endswith("_seconds") and name != "shared_tokens"):
            raise UsageError(f"{name} cannot be {value:g}")
    return {name: _figure(row, name, said) for name in NAMES}


def usage_of(row: UsageRow, figures: Mapping[str, Figure], longest_tokens: int) -> Usage:
    """What is said instead of the row's mean keeps the row's spread."""

    def habit(name: str) -> Habit:
        fact: HabitFact = getattr(row, name)
        sigma = 0.0
        if fact.median and fact.value and fact.value > fact.median:
            sigma = math.sqrt(2 * math.log(fact.value / fact.median))
        return Habit(_value(figures, name), sigma, fact.most or math.inf)

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


def _figure(row: UsageRow, name: str, said: Mapping[str, float]) -> Figure:
    fact: HabitFact = getattr(row, name)
    if name in said:
        return Figure(value=said[name], basis="assumed", source="as you say")
    note = f" ({fact.note})" if fact.note else ""
    return Figure(value=fact.value, basis="assumed" if fact.assumed else "catalog", source=f"{fact.source}{note}")


def _value(figures: Mapping[str, Figure], name: str) -> float:
    value = figures[name].value
    assert value is not None
    return float(value)
