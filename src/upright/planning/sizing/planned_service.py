"""How a box would serve a plan, from the constants that predict its speed."""

from __future__ import annotations

from dataclasses import dataclass, replace

from upright.base.errors import UprightError
from upright.base.units import format_tokens
from upright.engines import model_settings
from upright.facts.records.box import Box
from upright.facts.records.model import Model
from upright.facts.records.plan import Plan, Speed
from upright.planning.sizing.service import Service
from upright.planning.speed.assumed_bandwidth import RAM_ASSUMED as RAM_ASSUMED
from upright.planning.speed.decode import decode_step
from upright.planning.speed.expected import expected_speed, with_assumed_bandwidth
from upright.planning.speed.predict import SpeedCase, Unknown, speed_case, speed_constants, speed_query
from upright.planning.speed.prefill import CHUNK_TOKENS
from upright.planning.speed.speed_band import RateBand, rate_band

_SHORT_PROMPT = 4096
_FAR = 4
"""Times as long at least is the prompt that it is compared with, however short the context: engines read in chunks."""


class UnknownSpeedError(UprightError):
    """Nothing like it was measured."""


_ROUNDED = 0.06
"""Of a rate that is printed, in tokens a second."""


@dataclass(frozen=True)
class PlannedService:
    """A curve by arithmetic, and how far the arithmetic was off elsewhere."""

    service: Service
    why: str
    fast: Service
    """As fast, and with as much cache, as the bands allow."""
    slow: Service
    """As slow, and with as little cache."""
    low_factor: float
    high_factor: float
    notes: tuple[str, ...] = ()


def planned_service(plan: Plan, model: Model, box: Box) -> PlannedService:
    """Where a plan does not know the speed of one request alone, neither is it simulated."""
    box = plan.box_in_use(box)
    alone = expected_speed(plan.model_copy(update={"goal": plan.goal.model_copy(update={"users": 1})}), model, box)
    ranks = plan.parallel.ranks
    chosen = speed_constants(box, plan.engine, plan.engine_version, ranks, plan.goal.image, model)
    case = speed_case(plan, model, with_assumed_bandwidth(box), chosen.row) if chosen else None
    if isinstance(alone, Unknown) or chosen is None or case is None:
        reason = alone.why if isinstance(alone, Unknown) else "no constants"
        raise UnknownSpeedError(
            f"how fast {plan.engine} serves {plan.model} on {box.name} is not known: {reason.split('; ')[0]}",
            hint="measure it: upright bench, then upright fleet size --evidence DEPLOYMENT",
        )
    service, kv = _set_right(_service(plan, case), alone), plan.kv
    low, high = _ends(alone, rate_band(chosen.row, speed_query(plan, model, box, chosen)))
    least, best, most = kv.low_tokens or kv.capacity_tokens, kv.capacity_tokens, kv.high_tokens or kv.capacity_tokens
    notes = tuple(note.message for note in plan.notes if note.code == RAM_ASSUMED)
    if not fills_gpu_memory(plan):
        least = best = most = kv.planned_tokens
        stream_context = f"{format_tokens(plan.context_tokens)} tokens for each stream"
        notes = (f"{plan.engine} is started with {stream_context}, whatever else would fit", *notes)
    if plan.parallel.decode_context > 1 and not chosen.row.sharing_measured:
        notes = (
            *notes,
            "DCP, for which there is no measurement on such boxes: its price is assumed, not in the band",
        )
    if chosen.row.prompt_errors is None:
        notes = (*notes, "no prefill of its own was measured on such boxes: what prompts take is assumed")
    return PlannedService(
        service=_with_pool(service, best),
        why=f"planned: speeds/{chosen.row.id}, times {1 / high:.2f} to {1 / low:.2f} as long",
        fast=_with_pool(service.scaled(1 / high), most),
        slow=_with_pool(service.scaled(1 / low), least),
        low_factor=1 / high,
        high_factor=1 / low,
        notes=notes,
    )


def _ends(alone: Speed, factors: RateBand | None) -> tuple[float, float]:
    """Of the band, as the constants have it; as the plan has it where it is the wider one."""
    low, high = (0.5, 1.5) if factors is None else (factors.low, factors.high)
    rate = alone.decode
    if rate.best is None:
        return low, high
    return min(low, rate.low / rate.best), max(high, rate.high / rate.best)


def fills_gpu_memory(plan: Plan) -> bool:
    """Whether the engine makes a cache of all memory that it is offered; others are told tokens and streams."""
    return plan.memory_fraction is not None


def _service(plan: Plan, case: SpeedCase) -> Service:
    streams = model_settings.sequences(plan) if fills_gpu_memory(plan) else max(1, plan.goal.users)
    half = max(1, plan.context_tokens // 2)
    counts = sorted({count for count in (1, 2, 4, 8, 16, 32, 64, 128) if count < streams} | {streams})
    middle = counts[len(counts) // 2]
    cached = (_step(case, middle, half) - _step(case, middle, 0)) / (middle * half)
    far = max(plan.context_tokens, _FAR * _SHORT_PROMPT)
    short, long = _read(case, _SHORT_PROMPT) / _SHORT_PROMPT, _read(case, far) / far
    square = max(0.0, 2 * (long - short) / (far - _SHORT_PROMPT))
    return Service(
        step_seconds=tuple((count, _step(case, count, 0)) for count in counts),
        prompt_token_seconds=short - square * _SHORT_PROMPT / 2,
        step_prompt_tokens=plan.ubatch_tokens or CHUNK_TOKENS,
        pool_tokens=1,
        streams=streams,
        cached_token_seconds=max(0.0, cached),
        prompt_square_seconds=square,
        prompt_step_seconds=_step(case, 1, 0),
    )


def _set_right(service: Service, alone: Speed) -> Service:
    """Where runs of the very setting say that steps take longer or shorter than their terms."""
    step, best = service.prompt_step_seconds, alone.empty.best
    if best is None or abs(1 / step - best) <= _ROUNDED:
        return service
    times = 1 / (best * step)
    return replace(
        service,
        step_seconds=tuple((count, seconds * times) for count, seconds in service.step_seconds),
        cached_token_seconds=service.cached_token_seconds * times,
        prompt_step_seconds=step * times,
    )


def _with_pool(service: Service, pool_tokens: int) -> Service:
    return replace(service, pool_tokens=max(1, pool_tokens))


def _step(case: SpeedCase, streams: int, context: int) -> float:
    row = case.row.constants
    return decode_step(case.amounts(streams, context, row.expert_skew), row).seconds


def _read(case: SpeedCase, prompt_tokens: int) -> float:
    step = case.prompt(prompt_tokens)
    if step is None:
        raise UnknownSpeedError(
            f"no measurement of {case.plan.engine} prefill on such a box",
            hint="measure it: upright bench, then upright fleet size --evidence DEPLOYMENT",
        )
    return step.seconds
