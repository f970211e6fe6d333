"""Users + how a box serves + what they do -> the fewest boxes that keep a promise, by simulating them.

Conversations stay with their box, so that boxes hardly know of each other: of a large fleet a part is simulated, with
its share of the users.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from upright.sizing.outcome import Outcome
from upright.sizing.service import Service
from upright.sizing.setting import Setting
from upright.sizing.simulation import simulate
from upright.sizing.usage import Usage

PART = 48
"""Boxes that stand for a large fleet."""
_CYCLES = 6
_WARM_CYCLES = 8
_FAILS_AFTER = 0.1
"""Of the time that counts, when a box fails: streams that it cuts were asked within it."""
_DOWN = 1e-3
"""How likely more boxes than the spares may be down."""

OnTrial = Callable[[int, bool], None]


@dataclass(frozen=True)
class Promise:
    """What counts as served."""

    first_token_seconds: float = 5.0
    tokens_per_second: float = 20.0
    share: float = 0.95
    """Of turns that must keep the first, and of streams that must keep the second."""

    def broken(self, outcome: Outcome) -> tuple[str, ...]:
        """Of `first-token` and `rate` what is not kept; both if nobody was answered."""
        first = outcome.first_token_seconds.quantile(self.share)
        rate = outcome.tokens_per_second.quantile(1 - self.share)
        late = first is None or first > self.first_token_seconds
        slow = rate is None or rate < self.tokens_per_second
        return (*(("first-token",) if late else ()), *(("rate",) if slow else ()))


@dataclass(frozen=True)
class Size:
    """The fewest boxes, what their users see, and what one box fewer would break."""

    boxes: int
    outcome: Outcome
    fewer: Outcome | None
    """None if one box is enough."""
    broken: tuple[str, ...]
    simulated_boxes: int


@dataclass(frozen=True)
class Demand:
    """So many people, what they do, what they are promised."""

    users: int
    usage: Usage
    promise: Promise
    seed: int = 0
    turns: int = 8_000
    """Turns that a trial counts at least."""


def size(demand: Demand, service: Service, *, on_trial: OnTrial | None = None) -> Size | None:
    """By doubling, then by halves; None if one user alone on a box already breaks the promise."""
    seen: dict[int, Outcome] = {}

    def kept(boxes: int) -> bool:
        seen[boxes] = trial(demand, service, boxes)
        good = not demand.promise.broken(seen[boxes])
        if on_trial is not None:
            on_trial(boxes, good)
        return good

    bad, good = 0, max(1, min(_least(demand, service), demand.users))
    while not kept(good):
        if good == demand.users:
            return None
        bad, good = good, min(2 * good, demand.users)
    while bad == 0 and good > 1:
        if kept(good // 2):
            good //= 2
        else:
            bad = good // 2
    while good - bad > 1:
        middle = (good + bad) // 2
        if kept(middle):
            good = middle
        else:
            bad = middle
    fewer = seen.get(good - 1)
    broken = demand.promise.broken(fewer) if fewer else ()
    return Size(good, seen[good], fewer, broken, min(good, PART))


def trial(demand: Demand, service: Service, boxes: int) -> Outcome:
    return simulate(_setting(demand, service, boxes))


def trial_of_failure(demand: Demand, service: Service, boxes: int, repair_seconds: float) -> Outcome:
    """One of the boxes fails, so early that most of what is counted comes after."""
    setting = _setting(demand, service, boxes)
    fails_at = setting.warm_up_seconds + _FAILS_AFTER * setting.seconds
    return simulate(replace(setting, fails_at_seconds=fails_at, repair_seconds=repair_seconds))


def down_share(hours_between_failures: float, repair_seconds: float) -> float:
    """Of its time that a box is down."""
    repair_hours = repair_seconds / 3600
    return repair_hours / (hours_between_failures + repair_hours)


def spares(boxes: int, hours_between_failures: float, repair_seconds: float) -> int:
    """The fewest that keep `boxes` up all but a thousandth of the time; one at least, for a roll."""
    down = down_share(hours_between_failures, repair_seconds)
    more = max(1, int(boxes * down / (1 - down)))  # as many as are down on average
    while _more_than(more, boxes + more, down) > _DOWN:
        more += 1
    return more


def in_parts(setting: Setting, parts: int, run: Callable[[Iterable[Setting]], Iterable[Outcome]]) -> Outcome:
    """A large fleet, its boxes and users dealt out; a conversation stays within its part. `run` may use processes."""
    whole = Outcome()
    for outcome in run(_dealt(setting, parts)):
        whole.merge(outcome)
    return whole


def _dealt(setting: Setting, parts: int) -> list[Setting]:
    def share(of: int, part: int) -> int:
        return of * (part + 1) // parts - of * part // parts

    return [
        replace(setting, boxes=share(setting.boxes, part), users=share(setting.users, part), seed=setting.seed + part)
        for part in range(parts)
    ]


def _setting(demand: Demand, service: Service, boxes: int) -> Setting:
    part = min(boxes, PART)
    users = max(1, round(demand.users * part / boxes))
    cycle = _cycle_seconds(demand.usage, service)
    return Setting(
        service,
        demand.usage,
        boxes=part,
        users=users,
        seconds=cycle * max(_CYCLES, demand.turns / users),
        warm_up_seconds=_WARM_CYCLES * cycle,
        seed=demand.seed,
    )


def _least(demand: Demand, service: Service) -> int:
    """Fewer could not do the work if every step were as full as can be."""
    usage = demand.usage
    work = usage.answer_tokens.mean * service.decode_seconds(service.streams) / service.streams
    work += service.read_seconds(0, int(usage.turn_tokens.mean))
    return int(demand.users * work / (_cycle_seconds(usage, service) + work))


def _cycle_seconds(usage: Usage, service: Service) -> float:
    """A turn and its pause, on an idle box."""
    writing = usage.answer_tokens.mean * service.decode_seconds(1)
    return usage.mean_pause_seconds + writing + service.read_seconds(0, int(usage.turn_tokens.mean)) + 0.1


def _more_than(count: int, boxes: int, down: float) -> float:
    """That more than `count` of the boxes are down at once: binomial, by logarithms, since 0.5 ** 2000 is no float."""
    if down == 0:
        return 0.0
    logs = (
        math.lgamma(boxes + 1) - math.lgamma(each + 1) - math.lgamma(boxes - each + 1)
        + each * math.log(down) + (boxes - each) * math.log1p(-down)
        for each in range(count + 1)
    )  # fmt: skip
    return 1 - sum(map(math.exp, logs))
