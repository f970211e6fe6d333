"""Tuning steps: a safe start, then one setting at a time to the goal and beyond.

Native weights, no speculation, 65,536 tokens, text only; then longer contexts, then the draft, then pictures. Whether
memory allows a rung is known before; whether the engine stands there is for the ladder to prove.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from upright.base.units import format_memory, format_tokens
from upright.facts.catalog.unified_memory import Granted
from upright.facts.records.model import Model
from upright.facts.records.plan import Goal, Parallel, Plan, Rung
from upright.planning.choosing.engine_constraints import FORBIDDEN
from upright.planning.placement.engine_support import ranks_of
from upright.planning.placement.gpu_memory_utilization import gpu_share

Planner = Callable[[Goal], Plan]
CONTEXTS = (98_304, 131_072, 262_144)
SAFE_CONTEXT_TOKENS = 65_536


def tuning_steps(plan: Plan, model: Model, planner: Planner, granted: Granted | None = None) -> tuple[Rung, ...]:
    limit = model.architecture.context_limit_tokens or SAFE_CONTEXT_TOKENS
    start = min(SAFE_CONTEXT_TOKENS, limit, plan.context_tokens)
    text = "text only, no speculation" if model.architecture.vision else "no speculation"
    ladder = [Rung(name="safe-start", context_tokens=start, fits=True, why=f"the weights as they are, {text}")]
    longer = sorted({plan.context_tokens, *(length for length in CONTEXTS if length <= limit), limit})
    ladder += [_context(plan, context, planner) for context in longer if context > start]
    ladder += _sharing(plan, planner)
    ladder += _memory(plan, planner)
    ranks = ranks_of(plan.engine)
    drafts = ranks is not None and ranks.drafts
    if drafts and not plan.goal.draft:
        drafted = planner(plan.goal.model_copy(update={"draft": True, **_as_it_is(plan)}))
        cost = plan.kv.capacity_tokens - drafted.kv.capacity_tokens
        why = f"a draft model, if it wins on your load; takes about {format_tokens(max(0, cost))} tokens of KV cache"
        ladder.append(Rung(name="draft", context_tokens=plan.context_tokens, draft=True, fits=drafted.fits, why=why))
    if model.architecture.vision and drafts:
        why = "pictures: the tower is in the plan; what it needs while it runs is not known"
        ladder.append(Rung(name="vision", context_tokens=plan.context_tokens, vision=True, fits=plan.fits, why=why))
    ladder += _wired_limit(plan, granted)
    return tuple(ladder)


def _wired_limit(plan: Plan, granted: Granted | None) -> Iterator[Rung]:
    """What the system withholds from the GPU of the machine's own memory."""
    if granted is None or granted.more_bytes <= 0 or not plan.kv.low_bytes_per_token:
        return
    tokens = int(granted.more_bytes / plan.kv.low_bytes_per_token)
    why = f"{granted.command}: {format_memory(granted.more_bytes)} more for the GPU until the next boot"
    why += f", about {format_tokens(tokens)} tokens of KV cache; then start again"
    yield Rung(name="wired-limit", context_tokens=plan.context_tokens, fits=plan.fits, why=why)


def _as_it_is(plan: Plan) -> dict[str, object]:
    """One setting at a time: the engine and the sharing of the cache stay."""
    return {"engine": plan.engine, "decode_context_parallel": plan.parallel.decode_context}


def _sharing(plan: Plan, planner: Planner) -> Iterator[Rung]:
    """Decode context parallelism over all ranks that keep the same cache: kept if the context rung still holds."""
    ranks = plan.kv.copies * plan.parallel.decode_context
    asked = plan.goal.decode_context_parallel
    if plan.memory_fraction is None or plan.kv.copies < 2 or asked is not None or plan.parallel.nodes > 1:
        return
    shared = planner(plan.goal.model_copy(update={**_as_it_is(plan), "decode_context_parallel": ranks}))
    if any(objection.code in (FORBIDDEN, "no-dcp") for objection in shared.objections):
        return
    cost = ""
    if plan.speed and shared.speed and plan.speed.decode.best and shared.speed.decode.best:
        change = shared.speed.decode.best / plan.speed.decode.best - 1
        cost = f" for {-change:.0%} of decode" if change < 0 else f", and decode {change:.0%} faster"
    why = (
        f"DCP {ranks}: KV cache of {format_tokens(shared.kv.capacity_tokens)} tokens{cost}; the "
        "context rung accepts it or not"
    )
    yield Rung(name="dcp", context_tokens=plan.context_tokens, fits=shared.fits, why=why)


def _memory(plan: Plan, planner: Planner) -> Iterator[Rung]:
    share = gpu_share(plan.engine)
    if share is not None and plan.memory_fraction is not None and plan.memory_fraction < (highest := share.highest):
        more = planner(plan.goal.model_copy(update={"memory_fraction": highest, **_as_it_is(plan)}))
        if any(objection.code == FORBIDDEN for objection in more.objections):
            return
        why = f"--gpu-memory-utilization {highest}: KV cache of {format_tokens(more.kv.capacity_tokens)} tokens"
        yield Rung(name="memory", context_tokens=plan.context_tokens, fits=more.fits, why=why)


def _spread_otherwise(now: Parallel, then: Parallel) -> str:
    """What else must change: a length that only another spread holds is no length of this one."""
    ranks = (
        ("DCP", now.decode_context, then.decode_context),
        ("TP", now.tensor, then.tensor),
        ("PP", now.pipeline, then.pipeline),
    )
    changed = [f"{name} {wanted}" for name, has, wanted in ranks if wanted != has]
    return f", with {' and '.join(changed)}" if changed else ""


def _context(plan: Plan, context: int, planner: Planner) -> Rung:
    reason = "the goal" if context == plan.context_tokens else f"{format_tokens(context)} tokens for each user"
    if context * plan.goal.users <= plan.kv.low_tokens:
        return Rung(name="context", context_tokens=context, fits=True, why=reason)
    other = planner(plan.goal.model_copy(update={"context_tokens": context, "engine": plan.engine}))
    if other.fits:
        reason += _spread_otherwise(plan.parallel, other.parallel)
    return Rung(name="context", context_tokens=context, fits=other.fits, why=reason)
