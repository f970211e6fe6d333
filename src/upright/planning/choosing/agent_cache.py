"""Notes for agents: whose conversations stay in the KV cache, and what system RAM would keep of the others.

Users decode at the same time; agents mostly wait for their tools. One whose conversation was thrown out of the cache
reads all of it again at its next turn.
"""

from __future__ import annotations

import math

from upright.base.units import GIB, format_duration, format_memory, format_tokens
from upright.engines.facets.tiers import Tiers, host_cache_bytes
from upright.facts.records.box import Box
from upright.facts.records.plan import Note, Plan
from upright.planning.placement.host_tier import conversation_bytes, disk_note, free_bytes, tiers_of, tokens_of_a_gib

WARM = "agents-warm"


def with_agent_notes(plan: Plan, box: Box, agents: int) -> Plan:
    return plan.model_copy(update={"notes": (*plan.notes, *_notes(plan, box, agents))}) if plan.fits else plan


def _notes(plan: Plan, box: Box, agents: int) -> tuple[Note, ...]:
    whole = f"{agents} agent{'s' if agents > 1 else ''}, {format_tokens(plan.context_tokens)} tokens each: "
    # An engine that takes no share of a GPU has a cache for the planned users, whatever is left free.
    room = plan.goal.users if plan.memory_fraction is None else plan.users_at_context
    if agents <= room:
        return (Note(code=WARM, message=f"{whole}every conversation stays warm in the KV cache"),)
    tiers, talk_bytes = tiers_of(plan), conversation_bytes(plan)
    kept = _kept(plan, tiers, talk_bytes, agents - room)
    cold = agents - room - kept
    message = f"{whole}{room} {'stays' if room == 1 else 'stay'} warm in the KV cache"
    if kept:
        message += f", {kept} in system RAM"
    if not cold:
        return (Note(code=WARM, message=message),)
    message += f", {cold} {'is' if cold == 1 else 'are'} read again at every turn{_reading(plan)}"
    if talk_bytes is None or tiers is None:
        unsure = f"{message}; whether this engine can keep them in system RAM is not known"
        return (Note(code=WARM, message=unsure),)
    return (_more_ram(plan, box, message, tiers, (agents - room, talk_bytes)), disk_note(tiers))


def _kept(plan: Plan, tiers: Tiers | None, talk_bytes: float | None, waiting: int) -> int:
    """Conversations that the plan's own host tier keeps."""
    given = host_cache_bytes(plan)
    return min(waiting, int(tiers.kept_bytes(plan, given) / talk_bytes)) if given and tiers and talk_bytes else 0


def _more_ram(plan: Plan, box: Box, message: str, tiers: Tiers, waiting: tuple[int, float]) -> Note:
    """What system RAM would keep of those that are read again."""
    count, talk_bytes = waiting
    needed, given, free = tiers.ram_bytes(plan, count * talk_bytes), host_cache_bytes(plan), free_bytes(plan, box)
    message += f"; in system RAM {'all' if given else 'they'} would take {format_memory(count * talk_bytes)}"
    message += f", {format_memory(talk_bytes)} each"
    message += f", and 1 GiB keeps {format_tokens(tokens_of_a_gib(plan))} tokens"
    if free is None:
        message += " (how much of it is free is not known)"
    elif needed > free + given:
        message += f"; {format_memory(max(0.0, free + given))} is free: more RAM, fewer agents or a shorter context"
        return Note(code=WARM, message=message)
    if tiers.needs_no_words(count * talk_bytes) and not given:
        return Note(code=WARM, message=f"{message}; the engine does that by itself")
    whole = math.ceil(needed / GIB)
    flags = " ".join(f"{setting.name} {setting.value or ''}".strip() for setting in tiers.settings(plan, whole * GIB))
    return Note(code=WARM, message=message, remedy=f"--host-cache {whole} ({flags})")


def _reading(plan: Plan) -> str:
    prefill = plan.speed.prompt if plan.speed else None
    return f" ({format_duration(plan.context_tokens / prefill.best)} when full)" if prefill and prefill.best else ""
