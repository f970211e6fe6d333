"""The expected speed of a plan, its band widened where the bandwidth of system RAM is only assumed."""

from __future__ import annotations

import math

from upright.facts.records.base import Figure
from upright.facts.records.box import Box
from upright.facts.records.model import Model
from upright.facts.records.plan import Plan, Rate, Seconds, Speed
from upright.planning.speed.assumed_bandwidth import assumed_bandwidth, bandwidth_known, processor_row
from upright.planning.speed.predict import Unknown, speed

# A row of a processor has every channel populated: half may be empty. A default may be off as much both ways.
EMPTY_CHANNELS, MORE_CHANNELS = 0.5, 2.0


def expected_speed(plan: Plan, model: Model, box: Box) -> Speed | Unknown:
    """As `speed`; with an assumed bandwidth the band reaches from half of it to twice, as far as that decides."""
    on_host = any(place.device == "host" for place in plan.expert_places) or not box.gpus
    if not on_host or bandwidth_known(box) or not plan.fits:  # nothing is assumed for what cannot be started
        return speed(plan, model, box)
    assumed = assumed_bandwidth(box).value or 0.0
    expected = speed(plan, model, with_assumed_bandwidth(box))
    if isinstance(expected, Unknown):
        return expected
    fastest = 1.0 if processor_row(box.cpu.name) else MORE_CHANNELS
    slow, fast = (speed(plan, model, _with_bandwidth(box, assumed * factor)) for factor in (EMPTY_CHANNELS, fastest))
    assert isinstance(slow, Speed)
    assert isinstance(fast, Speed)
    return _widened(expected, slow, fast)


def with_assumed_bandwidth(box: Box) -> Box:
    """With what is assumed of its system RAM, where nothing is known."""
    return box if bandwidth_known(box) else _with_bandwidth(box, assumed_bandwidth(box).value or 0.0)


def _with_bandwidth(box: Box, bytes_per_second: float) -> Box:
    figure = Figure(value=bytes_per_second, basis="assumed", source="an end of what is assumed")
    return box.model_copy(update={"memory_bandwidth_bytes_per_second": figure})


def _widened(expected: Speed, slow: Speed, fast: Speed) -> Speed:
    names = ("decode", "empty", "full", "together", "prompt")
    rates = {name: _rate(getattr(expected, name), getattr(slow, name), getattr(fast, name)) for name in names}
    turns = tuple(
        each.model_copy(update={"warm": _seconds(each.warm, fewer.warm, more.warm), "basis": "assumed"})
        for each, more, fewer in zip(expected.turns, slow.turns, fast.turns, strict=True)
    )
    why = f"{expected.why}; widened, since the bandwidth of system RAM is assumed"
    return expected.model_copy(update={**rates, "turns": turns, "basis": "assumed", "why": why})


def _seconds(expected: Seconds | None, fewest: Seconds | None, most: Seconds | None) -> Seconds | None:
    """What is waited for the processor too; prompts are read by GPUs."""
    if expected is None or fewest is None or most is None:
        return expected
    middle = expected.best or math.sqrt(expected.low * expected.high)
    down = math.hypot(math.log(middle / expected.low), math.log(expected.low / fewest.low))
    up = math.hypot(math.log(expected.high / middle), math.log(most.high / expected.high))
    low, high = min(middle * math.exp(-down), expected.low), max(middle * math.exp(up), expected.high)
    return Seconds(best=expected.best, low=float(f"{low:.3g}"), high=float(f"{high:.3g}"))


def _rate(expected: Rate | None, slow: Rate | None, fast: Rate | None) -> Rate | None:
    """What is not known of the box and the error of the fit are independent."""
    if expected is None or slow is None or fast is None:
        return expected
    middle = expected.best or math.sqrt(expected.low * expected.high)
    down = math.hypot(math.log(middle / expected.low), math.log(expected.low / slow.low))
    up = math.hypot(math.log(expected.high / middle), math.log(fast.high / expected.high))
    low, high = middle * math.exp(-down), middle * math.exp(up)
    return Rate(best=expected.best, low=round(min(low, expected.low), 1), high=round(max(high, expected.high), 1))
