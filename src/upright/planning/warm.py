"""A plan that fits + agents -> a note: whose conversations stay warm, and what system RAM would keep of the others.

Users decode at the same time; agents mostly wait for their tools. One whose conversation was thrown out of the cache
reads all of it again at its next turn.
"""

from __future__ import annotations

from upright.catalog.recorded_flags import nearest_flags
from upright.engines import ENGINES
from upright.engines.facets.tiers import HostTier
from upright.planning.devices import HOST, host_bytes
from upright.records.box import Box
from upright.records.plan import Note, Plan
from upright.units import duration, memory, tokens

WARM = "agents-warm"


def with_warmth(plan: Plan, box: Box, agents: int) -> Plan:
    note = _warmth(plan, box, agents) if plan.fits else None
    return plan.model_copy(update={"notes": (*plan.notes, note)}) if note else plan


def _warmth(plan: Plan, box: Box, agents: int) -> Note:
    whole = f"{agents} agent{'s' if agents > 1 else ''}, {tokens(plan.context_tokens)} tokens each: "
    # An engine that takes no share of a GPU has a cache for the planned users, whatever is left free.
    room = plan.goal.users if plan.memory_fraction is None else plan.users_at_context
    if agents <= room:
        return Note(code=WARM, message=f"{whole}every conversation stays warm in the KV cache")
    cold = agents - room
    stay, are = "stays" if room == 1 else "stay", "is" if cold == 1 else "are"
    message = f"{whole}{room} {stay} warm in the KV cache, {cold} {are} read again at every turn{_reading(plan)}"
    each = _conversation_bytes(plan)
    tier = _tier(plan, cold * each) if each else None
    if each is None or tier is None:
        return Note(code=WARM, message=f"{message}; whether this engine can keep them in system RAM is not known")
    message += f"; in system RAM they would take {memory(cold * each)}, {memory(each)} each"
    free = _free_bytes(plan, box)
    if free is None:
        message += " (how much of it is free is not known)"
    elif tier.memory_bytes > free:
        message += f", and {memory(max(0.0, free))} is free: more RAM, fewer agents or a shorter context"
        return Note(code=WARM, message=message)
    if not tier.words:
        return Note(code=WARM, message=f"{message}, which the engine does by itself")
    return Note(code=WARM, message=message, remedy=f"{' '.join(tier.words)} ({memory(tier.memory_bytes)} of RAM)")


def _reading(plan: Plan) -> str:
    prefill = plan.speed.prompt if plan.speed else None
    return f" ({duration(plan.context_tokens / prefill.best)} when full)" if prefill and prefill.best else ""


def _conversation_bytes(plan: Plan) -> float | None:
    """Of one conversation on all ranks."""
    if plan.kv.bytes_per_token is None:
        return None
    return plan.kv.copies * (plan.context_tokens * plan.kv.bytes_per_token + plan.kv.bytes_per_sequence)


def _tier(plan: Plan, kept_bytes: float) -> HostTier | None:
    tiers = ENGINES[plan.engine].tiers
    recorded = nearest_flags(plan.engine, plan.engine_version)
    if tiers is None or recorded is None or tiers.flag not in recorded:
        return None
    return tiers.host(plan, kept_bytes)


def _free_bytes(plan: Plan, box: Box) -> float | None:
    offered = host_bytes(box).value
    if offered is None:
        return None
    return offered - sum(line.bytes for line in plan.ledger if line.device == HOST)
