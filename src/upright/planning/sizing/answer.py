"""The sizing of a fleet: boxes, spares, bottleneck, watts and money."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial

from upright.facts.records.base import Figure
from upright.facts.records.box import Box
from upright.facts.records.plan import Use
from upright.facts.records.sizing import Bottleneck, Curve, Promised, Seen, Sizing
from upright.planning.sizing.capacity import (
    ServiceDemand,
    Size,
    down_share,
    rough_size,
    sampling_error,
    size,
    spares,
    trial_of_failure,
)
from upright.planning.sizing.costs import costs
from upright.planning.sizing.outcome import SimulationOutcome
from upright.planning.sizing.service import Service

OnTrial = Callable[[str, int, bool], None]
"""Hears what is tried, on how many boxes, and whether they are enough."""
_IN_VAIN = 2
_MUCH, _MOST = 0.05, 0.4
"""Of turns, or of the tokens that are read, from which a cause is named, and from which it is the cause."""


@dataclass(frozen=True)
class ServingBox:
    """One box, and what is known of it."""

    service: Service
    curve: Curve
    context_tokens: int
    fast: Service | None = None
    """At the better end of the band; None if there is no band."""
    slow: Service | None = None
    model: str | None = None
    box_name: str | None = None
    box: Box | None = None
    made_from: tuple[str, ...] = ()
    at_once: int | None = None
    """Requests at once that one box is planned for; None where nothing was planned."""


def best_configuration(
    demand: ServiceDemand, ways: Iterable[ServingBox], *, on_trial: OnTrial | None = None
) -> tuple[ServingBox, Size | None]:
    """The way to serve that needs the fewest boxes, and how many: the first of them, unless a later one saves a box.

    Ways come in order of room for people; two in a row that save none end the search. Short trials put them in order,
    long ones decide: where those need more boxes, the next in that order is looked at too, and one that short trials
    find as good, or a box worse, is asked whether it does with one fewer.
    """
    best: tuple[ServingBox, Size | None] | None = None
    tried = sorted(_tried_roughly(demand, ways, on_trial), key=lambda tried: tried[1] or math.inf)
    for way, rough, sized in tried:
        fewest = best[1].boxes if best is not None and best[1] is not None else None
        if best is not None and (rough is None or (fewest is not None and (rough > fewest + 1 or fewest == 1))):
            break
        if sized is None:
            most = None if fewest is None else fewest - 1
            sized = size(
                _demand_on(demand, way),
                way.service,
                near=rough,
                most=most,
                on_trial=_heard(on_trial, _planned_words(way)),
            )
        if best is None or (sized is not None and (best[1] is None or sized.boxes < best[1].boxes)):
            best = (way, sized)
    assert best is not None, "there is a way, or an error said why not"
    return best


def _tried_roughly(
    demand: ServiceDemand, ways: Iterable[ServingBox], on_trial: OnTrial | None
) -> Iterator[tuple[ServingBox, int | None, Size | None]]:
    """By short trials; one box, which would end the search, by long ones too."""
    fewest, in_vain = None, 0
    for way in ways:
        sized, rough = None, rough_size(_demand_on(demand, way), way.service, near=fewest)
        if on_trial is not None and rough is not None:
            on_trial(f"{_planned_words(way)}, roughly", rough, True)
        if rough == 1:
            sized = size(_demand_on(demand, way), way.service, near=1, on_trial=_heard(on_trial, _planned_words(way)))
            rough = sized.boxes if sized else None
        yield way, rough, sized
        saves = rough is not None and (fewest is None or rough < fewest)
        fewest, in_vain = (rough, 0) if saves else (fewest, in_vain + 1)
        if in_vain == _IN_VAIN or fewest == 1:
            return


def _demand_on(demand: ServiceDemand, serving: ServingBox) -> ServiceDemand:
    """With the router that a fleet of such boxes is given."""
    if demand.router is None:
        return demand
    spill = max(demand.router.spill_requests, serving.at_once or 0)
    return replace(demand, router=replace(demand.router, spill_requests=spill))


def curve_of(service: Service, **rest: object) -> Curve:
    return Curve.model_validate(
        {
            "streams": service.streams,
            "pool_tokens": service.pool_tokens,
            "step_seconds": service.step_seconds,
            "cached_token_seconds": service.cached_token_seconds,
            "prompt_tokens_per_second": 1 / service.prompt_token_seconds if service.prompt_token_seconds else 0.0,
            "first_token_seconds": service.answer_seconds + service.prompt_step_seconds,
            **rest,
        }
    )


def sizing(
    demand: ServiceDemand,
    use: Use,
    serving: ServingBox,
    figures: Mapping[str, Figure],
    *,
    prices: Mapping[str, float] | None = None,
    host_watts: float | None = None,
    found: Size | None = None,
    asked_spares: int | None = None,
    on_trial: OnTrial | None = None,
) -> Sizing | None:
    """None if one user alone on a box already breaks the promise. `found` is the size, if it is known already."""
    demand = _demand_on(demand, serving)
    best = found or size(demand, serving.service, on_trial=_heard(on_trial, _planned_words(serving)))
    if best is None:
        return None
    faster, slower = serving.fast, serving.slow
    low = _end(demand, faster, best, "if faster", on_trial) if faster else best
    high = _end(demand, slower, best, "if slower", on_trial) if slower else best
    hours, repair = (float(figures[name].value or 0) for name in ("hours_between_failures", "repair_seconds"))
    more = asked_spares if asked_spares is not None else spares(best.boxes, hours, repair)
    failing = trial_of_failure(demand, serving.service, best.boxes + more, repair)
    binds, why = _binds(best, demand)
    down = (best.boxes + more) * down_share(hours, repair)
    return Sizing(
        made_from=serving.made_from,
        users=demand.users,
        use=use,
        promise=Promised(
            first_token_seconds=demand.promise.first_token_seconds,
            tokens_per_second=demand.promise.tokens_per_second,
            share=demand.promise.share,
        ),
        model=serving.model,
        box=serving.box_name,
        context_tokens=serving.context_tokens,
        usage=dict(figures),
        curve=serving.curve,
        boxes=best.boxes,
        low_boxes=min(best.boxes, low.boxes) if low else best.boxes,
        high_boxes=max(best.boxes, high.boxes) if high else None,
        spares=more,
        spares_why=_spares_why(best.boxes, more, down, asked_spares),
        binds=binds,
        binds_why=why,
        seen=_seen(best.boxes, best.outcome),
        fewer=_seen(best.fewer_boxes, best.fewer) if best.fewer else None,
        failing=_seen(best.boxes + more, failing),
        costs=tuple(costs(best.boxes + more, demand.users, serving.box, prices or {}, host_watts)),
        simulated_boxes=best.simulated_boxes,
        error_boxes=sampling_error(demand, serving.service, best),
    )


def _end(demand: ServiceDemand, service: Service, best: Size, what: str, on_trial: OnTrial | None) -> Size | None:
    """At one end of the band."""
    near = rough_size(demand, service, near=best.boxes)
    return size(demand, service, near=near or best.boxes, on_trial=_heard(on_trial, what))


def _spares_why(boxes: int, more: int, down: float, asked: int | None) -> str:
    average = f"{down:{'.2g' if down < 1 else ',.1f'}} boxes are down on average"
    if asked is not None:
        return f"as asked; {average}"
    if more == 0:
        share = "nobody is served" if boxes == 1 else "half are served"
        return f"{average}; while one fails or is restarted, {share} (--spares 1)"
    return f"{average}; more than {more:,} at once for less than a thousandth of the time, and a roll takes one"


def _planned_words(serving: ServingBox) -> str:
    return "as measured" if serving.at_once is None else f"planned for {serving.at_once:,} at once"


def _heard(on_trial: OnTrial | None, what: str) -> Callable[[int, bool], None] | None:
    return None if on_trial is None else partial(on_trial, what)


def _binds(found: Size, demand: ServiceDemand) -> tuple[Bottleneck, str]:
    fewer, promise = found.fewer, demand.promise
    if fewer is None:
        return "nothing", "one box is enough"
    if "first-token" in found.broken:
        first = fewer.first_token_seconds.quantile(promise.share) or 0.0
        wanted = f"{promise.first_token_seconds:g} s"
        head = f"{promise.share:.0%} of first tokens would come within {first:.1f} s, not {wanted}"
        room, stream = fewer.waited_for_room / max(1, fewer.turns), fewer.waited_for_stream / max(1, fewer.turns)
        dropped = fewer.reread_tokens / max(1, fewer.prompt_tokens - fewer.reused_tokens)
        if stream > max(room, _MUCH) and dropped < _MOST:
            return "streams", f"{head}: {stream:.0%} of turns would wait for a free stream"
        if dropped > max(room, _MUCH):
            return "kv-pool", f"{head}: {dropped:.0%} of what is read would have been in the cache, and was dropped"
        if room > _MUCH:
            return "kv-pool", f"{head}: {room:.0%} of turns would wait for room in the cache"
        return "first-token", f"{head}: prompts would wait for each other"
    rate = fewer.tokens_per_second.quantile(1 - promise.share) or 0.0
    return "rate", (
        f"{promise.share:.0%} of streams would have {rate:.1f} tok/s or more, not {promise.tokens_per_second:g}"
    )


def _seen(boxes: int, outcome: SimulationOutcome) -> Seen:
    first, rate = outcome.first_token_seconds, outcome.tokens_per_second
    turns, prompt = max(1, outcome.turns), max(1, outcome.prompt_tokens)
    whole = boxes / outcome.boxes if outcome.boxes else 1.0
    return Seen(
        boxes=boxes,
        first_token_p50_seconds=round(first.quantile(0.5) or 0, 3),
        first_token_p95_seconds=round(first.quantile(0.95) or 0, 3),
        tokens_per_second_p50=round(rate.quantile(0.5) or 0, 1),
        tokens_per_second_p5=round(rate.quantile(0.05) or 0, 1),
        busy_percent=round(100 * outcome.busy, 1),
        reused_percent=round(100 * outcome.reused_tokens / prompt, 1),
        reread_percent=round(100 * outcome.reread_tokens / prompt, 1),
        waited_for_room_percent=round(100 * outcome.waited_for_room / turns, 1),
        waited_for_stream_percent=round(100 * outcome.waited_for_stream / turns, 1),
        output_tokens_per_second=round(whole * outcome.answered_tokens_per_second, 1),
        turns=outcome.turns,
        failures=outcome.failures,
        cut=outcome.cut,
    )
