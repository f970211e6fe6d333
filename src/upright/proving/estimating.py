"""Probes + measured rates + a budget -> which run, which do not, and why.

Pure: the same figures give the same choice. A shared prefix is paid once, if the server caches prefixes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from upright import units

AFTER_LEFT_OUT = "comes after a shorter one that was left out"
_LEFT = "of the budget are left"
THOUGHT_TOKENS = 400
"""What thinking adds to an answer, until it is measured (assumed)."""


@dataclass(frozen=True)
class Cost:
    """What a probe takes: tokens to read, tokens to write, and seconds that depend on neither."""

    prompt_tokens: int = 0
    answer_tokens: int = 0
    seconds: float = 0.0

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.prompt_tokens + other.prompt_tokens,
            self.answer_tokens + other.answer_tokens,
            self.seconds + other.seconds,
        )


@dataclass
class Rates:
    """Tokens a second, as measured so far."""

    prefill: float | None = None
    decode: float | None = None

    def learn(self, *, prefill: float | None = None, decode: float | None = None) -> None:
        """The latest measurement counts: a longer prompt is the better witness for a longer one."""
        self.prefill = prefill or self.prefill
        self.decode = decode or self.decode

    def seconds(self, cost: Cost) -> float | None:
        """None if a rate that is needed is not known yet."""
        total = cost.seconds
        for tokens, rate in ((cost.prompt_tokens, self.prefill), (cost.answer_tokens, self.decode)):
            if tokens and not rate:
                return None
            total += tokens / rate if rate else 0
        return total


@dataclass(frozen=True)
class Group:
    """Probes that run together."""

    rung: str
    name: str
    cost: Cost
    probes: int = 1
    in_order: bool = False
    """It builds on the groups of its rung before it: its cost counts on their prefix."""


@dataclass(frozen=True)
class Chosen:
    """One group of the climb's schedule."""

    group: Group
    seconds: float | None
    """The estimate; None if a rate is not known."""
    runs: bool
    reason: str


def choose(groups: Sequence[Group], rates: Rates, budget_seconds: float | None) -> list[Chosen]:
    """In the ladder's order, each group that still fits; a dear one that does not fit leaves room for later ones."""
    left, schedule, cut = budget_seconds, [], set[str]()
    for group in groups:
        seconds = rates.seconds(group.cost)
        if group.in_order and group.rung in cut:
            schedule.append(Chosen(group, seconds, False, AFTER_LEFT_OUT))
        elif left is None:
            schedule.append(Chosen(group, seconds, True, "no budget was given"))
        elif seconds is None:
            schedule.append(Chosen(group, None, True, "its time is not known before a rate is measured"))
        elif seconds <= left:
            schedule.append(Chosen(group, seconds, True, f"about {units.duration(seconds)}"))
            left -= seconds
        else:
            schedule.append(Chosen(group, seconds, False, unaffordable(seconds, left)))
            cut.add(group.rung)
    return schedule


def unaffordable(seconds: float, left_seconds: float) -> str:
    return f"needs about {units.duration(seconds)}, and {units.duration(max(left_seconds, 0))} {_LEFT}"


def is_left_out(reason: str) -> bool:
    """Whether a question was skipped for the budget; else for what it is."""
    return reason == AFTER_LEFT_OUT or reason.endswith(_LEFT)


def total_seconds(schedule: Iterable[Chosen]) -> float | None:
    """Of what runs; None if one of them is not known."""
    running = [chosen.seconds for chosen in schedule if chosen.runs]
    return sum(each for each in running if each is not None) if None not in running else None
