"""Which probes run within a budget, by measured rates, and why.

Pure: the same figures give the same choice. A shared prefix is paid once, if the server caches prefixes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from upright.base import units
from upright.facts.records.evidence import AFTER_LEFT_OUT, TOO_DEAR

THOUGHT_TOKENS = 400
"""What thinking adds to an answer, until it is measured (assumed)."""


@dataclass(frozen=True)
class ProbeCost:
    """What a probe takes: tokens to read, tokens to write, and seconds that depend on neither."""

    prompt_tokens: int = 0
    answer_tokens: int = 0
    seconds: float = 0.0
    shared_tokens: int = 0
    """Tokens that were sent before, which a server that keeps no prefixes reads again."""

    def __add__(self, other: ProbeCost) -> ProbeCost:
        return ProbeCost(
            self.prompt_tokens + other.prompt_tokens,
            self.answer_tokens + other.answer_tokens,
            self.seconds + other.seconds,
            self.shared_tokens + other.shared_tokens,
        )


_FARTHEST = 4
"""Times a measured prompt: prefill slows down as a context grows."""
_READING_SHARE = 0.8
_ALIKE = 0.25


@dataclass
class Rates:
    """Tokens a second, as measured so far."""

    prefill: float | None = None
    decode: float | None = None
    prompt_tokens: int = 0
    """The prompt that prefill was measured on."""
    least_prefill: float | None = None
    """As fast at least: a whole answer took no longer than that, its writing included."""
    least_decode: float | None = None
    reads_again: bool = False
    """Whether a text that was just read took as long the second time: no prefix is kept."""

    def learn(self, *, prefill: float | None = None, decode: float | None = None, prompt_tokens: float = 0) -> None:
        """The latest measurement counts: a longer prompt is the better witness for a longer one."""
        self.prompt_tokens = int(prompt_tokens) if prefill else self.prompt_tokens
        self.prefill = prefill or self.prefill
        self.decode = decode or self.decode

    def at_least(self, prompt_tokens: int, answer_tokens: int, seconds: float) -> None:
        """What a short answer shows already: neither reading nor writing is slower than both together."""
        if seconds > 0:
            self.least_prefill = max(self.least_prefill or 0.0, prompt_tokens / seconds)
            self.least_decode = max(self.least_decode or 0.0, answer_tokens / seconds)

    def longest_seconds(self, prompt_tokens: int, answer_tokens: int) -> float | None:
        """By the rates, or by the least that they can be; None if nothing was answered yet."""
        prefill, decode = self.prefill or self.least_prefill, self.decode or self.least_decode
        return prompt_tokens / prefill + answer_tokens / decode if prefill and decode else None

    def seconds(self, cost: ProbeCost) -> float | None:
        """None if a rate that is needed is not known yet."""
        total = cost.seconds
        for tokens, rate in ((self._read(cost), self.prefill), (cost.answer_tokens, self.decode)):
            if tokens and not rate:
                return None
            total += tokens / rate if rate else 0
        return total

    def witnessed(self, cost: ProbeCost) -> float | None:
        """Seconds that can be told to a person: mostly a prompt, not much longer than one that was measured. How long
        an answer gets, and what a load takes beside its time, nobody knows before."""
        seconds = self.seconds(cost)
        if seconds is None or seconds == 0:
            return seconds
        reading = self._read(cost) / self.prefill if self.prefill else 0.0
        far = cost.prompt_tokens > _FARTHEST * self.prompt_tokens
        return None if far or reading < _READING_SHARE * seconds else seconds

    def _read(self, cost: ProbeCost) -> int:
        return cost.prompt_tokens + (cost.shared_tokens if self.reads_again else 0)


@dataclass(frozen=True)
class EarlierTiming:
    """What a rung took in an earlier climb of the same deployment with the same prompts."""

    probes: int
    """Questions that were asked."""
    seconds: float
    """From its first question to its last answer."""
    load_seconds: float = 0.0
    """Of a load, how long it was asked to last."""

    def fits(self, groups: Sequence[Group]) -> bool:
        """Whether the same is asked again."""
        load = sum(group.cost.seconds for group in groups)
        alike = not self.load_seconds or abs(load - self.load_seconds) <= _ALIKE * self.load_seconds
        return self.probes == sum(group.probes for group in groups) and alike


@dataclass(frozen=True)
class Group:
    """Probes that run together."""

    rung: str
    name: str
    cost: ProbeCost
    probes: int = 1
    in_order: bool = False
    """It builds on the groups of its rung before it: its cost counts on their prefix."""


@dataclass(frozen=True)
class ScheduledGroup:
    """One group of the climb's schedule."""

    group: Group
    seconds: float | None
    """The estimate; None if a rate is not known."""
    runs: bool
    reason: str
    told_seconds: float | None = None
    """What a person is told: measured here before, or by a measured rate; None if there is nothing to base it on."""


def choose(
    groups: Sequence[Group],
    rates: Rates,
    budget_seconds: float | None,
    known: Mapping[str, EarlierTiming] | None = None,
) -> list[ScheduledGroup]:
    """In the ladder's order, each group that still fits; a dear one that does not fit leaves room for later ones."""
    chosen = _chosen(groups, rates, budget_seconds)
    firsts = {choice.group.rung: choice.group for choice in reversed(chosen)}
    return [replace(choice, told_seconds=_told(choice, chosen, firsts, rates, known or {})) for choice in chosen]


def _told(
    one: ScheduledGroup,
    chosen: Sequence[ScheduledGroup],
    firsts: Mapping[str, Group],
    rates: Rates,
    known: Mapping[str, EarlierTiming],
) -> float | None:
    rung = one.group.rung
    groups = [choice.group for choice in chosen if choice.group.rung == rung and choice.runs]
    if rung in known and known[rung].fits(groups):
        return known[rung].seconds if one.group is firsts[rung] else 0.0
    return rates.witnessed(one.group.cost)


def _chosen(groups: Sequence[Group], rates: Rates, budget_seconds: float | None) -> list[ScheduledGroup]:
    whole, schedule, cut = budget_seconds, [], set[str]()
    kept = sum(group.cost.seconds for group in groups)
    for group in groups:
        seconds = rates.seconds(group.cost)
        kept -= group.cost.seconds
        left = None if whole is None else whole - kept
        if group.in_order and group.rung in cut:
            schedule.append(ScheduledGroup(group, seconds, False, AFTER_LEFT_OUT))
        elif left is None:
            schedule.append(ScheduledGroup(group, seconds, True, "no budget was given"))
        elif seconds is None:
            schedule.append(ScheduledGroup(group, None, True, "its time is not known before a rate is measured"))
        elif seconds <= left:
            schedule.append(ScheduledGroup(group, seconds, True, f"about {units.format_duration(seconds)}"))
            whole = None if whole is None else whole - seconds
        else:
            schedule.append(ScheduledGroup(group, seconds, False, unaffordable(seconds, left)))
            cut.add(group.rung)
    return schedule


def unaffordable(seconds: float, left_seconds: float) -> str:
    return f"needs about {units.format_duration(seconds)}, and {units.format_duration(max(left_seconds, 0))} {TOO_DEAR}"


def witnessed_total(schedule: Iterable[ScheduledGroup]) -> float | None:
    """Of what runs, with a basis for each part; None if there is none for one of them."""
    running = [chosen.told_seconds for chosen in schedule if chosen.runs]
    return sum(seconds for seconds in running if seconds is not None) if running and None not in running else None


def total_seconds(schedule: Iterable[ScheduledGroup]) -> float | None:
    """Of what runs; None if one of them is not known."""
    running = [chosen.seconds for chosen in schedule if chosen.runs]
    return sum(seconds for seconds in running if seconds is not None) if None not in running else None
