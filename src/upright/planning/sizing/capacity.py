"""The fewest boxes that keep an SLO for so many users, by simulating them.

Most turns stay with their conversation's box, so that boxes hardly know of each other: of a large fleet a part is
simulated, with its share of the users, as large as the turns that a trial counts need. What that may be off by is
measured by asking again with other seeds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from upright.planning.choosing.routing import RouterPolicy
from upright.planning.sizing.outcome import SimulationOutcome
from upright.planning.sizing.service import Service
from upright.planning.sizing.setting import SimulationSetting
from upright.planning.sizing.simulation import simulate
from upright.planning.sizing.usage import Usage

_PART = 4
"""Boxes that stand for a large fleet, at least: a new conversation goes to the less loaded of two."""
_FAILING_PART = 12
"""The same where one of them fails: of six it would be too large a share."""
_CYCLES = 2
"""Turns that a user of a trial takes at least, in time,"""
_TURNS_EACH = 6
"""and where a part of the users gives as many as are counted."""
_WARM_CYCLES = 0.5
_FINE = 200
"""No finer than this part of a large fleet: the sampling error is larger."""
_OTHER_SEEDS = (1, 2)
_CLOSE = 1.15
"""How many times the promise what is seen may be, for other seeds to be tried."""
_ROUGH = 6
_ALONE = 4
_SPARES_FROM = 3
_FAILS_AFTER = 0.1
"""Of the time that counts, when a box fails: streams that it cuts were asked within it."""
_DOWN = 1e-3
"""How likely more boxes than the spares may be down."""

OnTrial = Callable[[int, bool], None]


@dataclass(frozen=True)
class ServiceObjective:
    """What counts as served."""

    first_token_seconds: float = 5.0
    tokens_per_second: float = 20.0
    share: float = 0.95
    """Of turns that must keep the first, and of streams that must keep the second."""

    def broken(self, outcome: SimulationOutcome) -> tuple[str, ...]:
        """Of `first-token` and `rate` what is not kept; both if nobody was answered."""
        first = outcome.first_token_seconds.quantile(self.share)
        rate = outcome.tokens_per_second.quantile(1 - self.share)
        late = first is None or first > self.first_token_seconds
        slow = rate is None or rate < self.tokens_per_second
        return (*(("first-token",) if late else ()), *(("rate",) if slow else ()))

    def nearly(self, outcome: SimulationOutcome) -> bool:
        """Whether it is so close that other turns may decide otherwise."""
        times = (
            replace(
                self, first_token_seconds=self.first_token_seconds * by, tokens_per_second=self.tokens_per_second / by
            )
            for by in (1 / _CLOSE, _CLOSE)
        )
        return len({bool(promise.broken(outcome)) for promise in times}) > 1


@dataclass(frozen=True)
class Size:
    """The fewest boxes, what their users see, and what fewer would break."""

    boxes: int
    outcome: SimulationOutcome
    fewer_boxes: int
    """The most of those tried that are too few; 0 if one box is enough."""
    fewer: SimulationOutcome | None
    """None if one box is enough."""
    broken: tuple[str, ...]
    simulated_boxes: int


@dataclass(frozen=True)
class ServiceDemand:
    """So many people, what they do, what they are promised."""

    users: int
    usage: Usage
    promise: ServiceObjective
    seed: int = 0
    turns: int = 8_000
    """Turns that a trial counts at least."""
    exact: bool = False
    """Every box and every user is simulated, however many."""
    router: RouterPolicy | None = None
    """How turns come to boxes; None: a conversation stays, a new one goes to the less loaded of two."""


class _Search:
    """Trials of one demand on one kind of box."""

    def __init__(self, demand: ServiceDemand, service: Service, on_trial: OnTrial | None, *, sure: bool) -> None:
        self.demand, self.service, self.on_trial, self.sure = demand, service, on_trial, sure
        self.seen: dict[int, SimulationOutcome] = {}

    def kept(self, boxes: int) -> bool:
        if boxes not in self.seen:
            self.seen[boxes] = seen = trial(self.demand, self.service, boxes)
            if self.sure and self.demand.promise.nearly(seen):
                _go_on(seen, (trial(other, self.service, boxes) for other in _redrawn(self.demand)))
            if self.on_trial is not None:
                self.on_trial(boxes, not self.demand.promise.broken(self.seen[boxes]))
        return not self.demand.promise.broken(self.seen[boxes])

    def fewest(self, near: int, most: int | None) -> tuple[int, int] | None:
        """The most that are too few and the fewest that are enough, as close as trials can tell.

        From the guess in strides that double, then by halves: a good guess is two trials. None if `most` are too few.
        """
        most = min(most or self.demand.users, self.demand.users)
        bad, good = 0, max(1, min(near, most))
        stride = finest = max(1, good // _FINE)
        while not self.kept(good):
            if good == most:
                return None
            bad, good, stride = good, min(good + stride, most), 2 * stride
        while bad == 0 and good > 1:
            lower = max(1, good - stride)
            good, bad, stride = (lower, 0, 2 * stride) if self.kept(lower) else (good, lower, stride)
        while good - bad > (1 if self.demand.exact else finest):
            middle = (good + bad) // 2
            bad, good = (bad, middle) if self.kept(middle) else (middle, good)
        return bad, good


def size(
    demand: ServiceDemand,
    service: Service,
    *,
    near: int | None = None,
    most: int | None = None,
    on_trial: OnTrial | None = None,
    sure: bool = True,
) -> Size | None:
    """From a guess up or down, then by halves; None if one user alone on a box already breaks the promise, or `most`
    boxes do. Where a trial is close, other turns are drawn too, unless it need not be `sure`.
    """
    search = _Search(demand, service, on_trial, sure=sure)
    ends = search.fewest(near or _least(demand, service), most)
    if ends is None:
        return None
    bad, good = ends
    fewer = search.seen.get(bad)
    broken = demand.promise.broken(fewer) if fewer else ()
    return Size(good, search.seen[good], bad, fewer, broken, search.seen[good].boxes)


def rough_size(demand: ServiceDemand, service: Service, *, near: int | None = None) -> int | None:
    """The fewest by short trials: enough to tell one way to serve from another, and where to look closely."""
    rough = size(replace(demand, turns=demand.turns // _ROUGH, exact=False), service, near=near, sure=False)
    return rough.boxes if rough else None


def sampling_error(demand: ServiceDemand, service: Service, size_found: Size) -> int:
    """By how many boxes the answer differs where other turns are drawn; 0 where every box is simulated, unless the
    promise is no more than what one user alone sees: then it is the turns that are drawn that decide.
    """
    if size_found.simulated_boxes >= size_found.boxes and not one_user_is_at_the_promise(demand, service):
        return 0
    error = 0
    for redrawn in _redrawn(demand):
        other = size(redrawn, service, near=size_found.boxes, sure=False)
        if other is not None:
            error = max(error, abs(other.boxes - size_found.boxes))
    return max(error, size_found.boxes - size_found.fewer_boxes - 1)


def one_user_is_at_the_promise(demand: ServiceDemand, service: Service) -> bool:
    """Alone on a box, as near to it as a trial can tell: no number of boxes is sure then."""
    alone = replace(demand, users=1, turns=demand.turns // _ALONE)
    return demand.promise.nearly(trial(alone, service, 1))


def trial(demand: ServiceDemand, service: Service, boxes: int) -> SimulationOutcome:
    return simulate(_setting(demand, service, boxes))


def _redrawn(demand: ServiceDemand) -> list[ServiceDemand]:
    """The same, with other turns drawn."""
    return [replace(demand, seed=demand.seed + seed) for seed in _OTHER_SEEDS]


def _go_on(seen: SimulationOutcome, others: Iterable[SimulationOutcome]) -> None:
    """As if the same boxes had been watched for longer."""
    boxes, seconds = seen.boxes, seen.simulated_seconds
    for other in others:
        seen.merge(other)
        seconds += other.simulated_seconds
    seen.boxes, seen.simulated_seconds = boxes, seconds


def trial_of_failure(demand: ServiceDemand, service: Service, boxes: int, repair_seconds: float) -> SimulationOutcome:
    """One of the boxes fails, so early that most of what is counted comes after."""
    setting = _setting(demand, service, boxes, least_part=_FAILING_PART)
    fails_at = _FAILS_AFTER * setting.seconds
    return simulate(replace(setting, fails_at_seconds=fails_at, repair_seconds=repair_seconds))


def down_share(hours_between_failures: float, repair_seconds: float) -> float:
    """Of its time that a box is down."""
    repair_hours = repair_seconds / 3600
    return repair_hours / (hours_between_failures + repair_hours)


def spares(boxes: int, hours_between_failures: float, repair_seconds: float) -> int:
    """The fewest that keep `boxes` up all but a thousandth of the time, and one at least, for a roll; none for one box
    or two, where a spare is half of the money or more: who wants one asks for it.
    """
    if boxes < _SPARES_FROM:
        return 0
    down = down_share(hours_between_failures, repair_seconds)
    more = max(1, int(boxes * down / (1 - down)))  # as many as are down on average
    while _more_than(more, boxes + more, down) > _DOWN:
        more += 1
    return more


def simulate_in_parts(
    setting: SimulationSetting, parts: int, run: Callable[[Iterable[SimulationSetting]], Iterable[SimulationOutcome]]
) -> SimulationOutcome:
    """A large fleet, its boxes and users dealt out; a conversation stays within its part. `run` may use processes."""
    whole = SimulationOutcome()
    for outcome in run(_dealt(setting, parts)):
        whole.merge(outcome)
    return whole


def _dealt(setting: SimulationSetting, parts: int) -> list[SimulationSetting]:
    def share(of: int, part: int) -> int:
        return of * (part + 1) // parts - of * part // parts

    return [
        replace(setting, boxes=share(setting.boxes, part), users=share(setting.users, part), seed=setting.seed + part)
        for part in range(parts)
    ]


def _setting(demand: ServiceDemand, service: Service, boxes: int, *, least_part: int = _PART) -> SimulationSetting:
    users_of_a_box = demand.users / boxes
    part = (
        boxes if demand.exact else min(boxes, max(least_part, math.ceil(demand.turns / _TURNS_EACH / users_of_a_box)))
    )
    users = max(1, round(users_of_a_box * part))
    cycle = _cycle_seconds(demand.usage, service)
    return SimulationSetting(
        service,
        demand.usage,
        boxes=part,
        users=users,
        seconds=cycle * max(_CYCLES, demand.turns / users),
        warm_up_seconds=_WARM_CYCLES * cycle,
        settle_seconds=cycle,
        seed=demand.seed,
        router=demand.router,
    )


def _least(demand: ServiceDemand, service: Service) -> int:
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
        math.lgamma(boxes + 1) - math.lgamma(down_count + 1) - math.lgamma(boxes - down_count + 1)
        + down_count * math.log(down) + (boxes - down_count) * math.log1p(-down)
        for down_count in range(count + 1)
    )  # fmt: skip
    return 1 - sum(map(math.exp, logs))
