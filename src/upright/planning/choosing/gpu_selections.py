"""GPUs of several kinds: each engine's plans by those of them that serve this model best.

Engines that place layers are shown the fastest kind, the two fastest, and so on: a slow card that is not needed stays
idle. Ranks need GPUs of one kind; stages may have several of one compute capability.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from upright.engines import engine_named
from upright.engines.facets.spread import Ranks
from upright.facts.records.box import Box
from upright.facts.records.plan import Goal, Note, Plan
from upright.planning.choosing.rule import expected, use_rate
from upright.planning.placement.devices import HOST, gpus, same_kind
from upright.planning.placement.unequal_gpus import fastest_kinds, one_capability

IDLE_GPUS = "idle-gpus"
_NO_RANKS = (
    "ranks need GPUs of one architecture and memory: the first one's compute capability decides which kernels all of "
    "them run"
)


def best_selections(box: Box, goal: Goal, plans_with: Callable[[tuple[int, ...]], list[Plan]]) -> list[Plan]:
    """The plans of each engine with the GPUs by which it fits, and of those the fastest."""
    of_engine: dict[str, list[list[Plan]]] = {}
    for shown in _selections(box):
        by_engine: dict[str, list[Plan]] = {}
        for plan in plans_with(shown):
            by_engine.setdefault(plan.engine, []).append(plan)
        for engine, plans in by_engine.items():
            if _sensible(plans[0], box, shown):
                of_engine.setdefault(engine, []).append(plans)
    return [
        _with_idle(plan, box, max(other.largest_context_tokens for plans in tried for other in plans))
        for tried in of_engine.values()
        for plan in max(tried, key=_worth)
    ]


def _selections(box: Box) -> Iterator[tuple[int, ...]]:
    """Without repetition: what layers are placed on, and what ranks are."""
    yield from dict.fromkeys((*fastest_kinds(box), *_alike(box)))


def _alike(box: Box) -> Iterator[tuple[int, ...]]:
    """GPUs that ranks can divide a layer over: of one architecture and memory, whatever their bandwidth."""
    devices = dict(zip((gpu.index for gpu in box.gpus), gpus(box), strict=True))
    left = list(devices)
    while left:
        group = tuple(index for index in left if same_kind((devices[left[0]], devices[index])))
        left = [index for index in left if index not in group]
        yield group


def _sensible(plan: Plan, box: Box, shown: Sequence[int]) -> bool:
    """Layers go on the fastest kinds. Ranks are of one kind, or stages on all of one compute capability."""
    spread = engine_named(plan.engine).spread
    if not isinstance(spread, Ranks):
        return tuple(shown) in tuple(fastest_kinds(box))
    staged = spread.uneven_stages is not None and len(shown) == len(box.gpus) and one_capability(box)
    return staged or tuple(shown) in tuple(_alike(box))


def _worth(plans: Sequence[Plan]) -> tuple[object, ...]:
    """Of one engine: what fits, whole on the GPUs, as fast as can be; else what is the least short."""
    fitting = [plan for plan in plans if plan.fits]
    best = max(fitting or plans, key=_rate)
    short = max((objection.short_bytes or 0 for objection in best.objections), default=0)
    whole = not any(place.device == HOST for place in best.expert_places)
    unstaged = best.parallel.pipeline == 1
    return bool(fitting), bool(fitting) and whole, -short, _rate(best), unstaged, _gpu_bytes(best)


def _rate(plan: Plan) -> float:
    rate = use_rate(plan)
    return expected(rate) if rate else 0.0


def _gpu_bytes(plan: Plan) -> int:
    return sum(budget.capacity_bytes for budget in plan.budgets if budget.device != HOST)


def _with_idle(plan: Plan, box: Box, longest: int) -> Plan:
    """With a word on the GPUs that it leaves idle, and what a longer context could have with them."""
    idle = [gpu for gpu in box.gpus if gpu.index not in plan.gpus]
    if not idle:
        return plan
    names = {name: sum(gpu.name == name for gpu in idle) for name in dict.fromkeys(gpu.name for gpu in idle)}
    cards = " and ".join(f"{count}x {name.removeprefix('NVIDIA ')}" for name, count in names.items())
    why = "every layer on a slower card would be read more slowly, and this one fits without"
    if isinstance(engine_named(plan.engine).spread, Ranks):
        why = _NO_RANKS
    note = Note(code=IDLE_GPUS, message=f"{cards} stay{'s' if len(idle) == 1 else ''} idle: {why}")
    longest = max(longest, plan.largest_context_tokens)
    return plan.model_copy(update={"notes": (*plan.notes, note), "largest_context_tokens": longest})
