"""A plan with a KV cache tier in system RAM, or the objection to it."""

from __future__ import annotations

from upright.base.units import GIB, format_memory, format_tokens
from upright.engines import ENGINES
from upright.engines.facets.tiers import HOST_CACHE, Tiers
from upright.facts.catalog.recorded_flags import nearest_flags
from upright.facts.records.box import Box
from upright.facts.records.plan import DeviceBudget, Note, Objection, Plan
from upright.planning.placement.devices import HOST, gpus, host_bytes
from upright.planning.placement.plan_limits import exact_line

TIER, DISK = "host-cache", "disk-tier"
NONE, TOO_SMALL, TOO_LARGE = "no-host-cache", "host-cache-too-small", "host-cache-too-large"


def with_host_cache(plan: Plan, box: Box, ram_bytes: int) -> Plan:
    """The recipe takes its flags from the ledger's line."""
    if not plan.fits:
        return plan
    against = _objection(plan, box, ram_bytes)
    if against is not None:
        return plan.model_copy(update={"objections": (against,)})
    line = exact_line(HOST, HOST_CACHE, ram_bytes, "system RAM behind the KV cache, as asked for", "assumed")
    update = {"ledger": (*plan.ledger, line), "budgets": _budgets(plan, box)}
    return plan.model_copy(update={**update, "notes": (*plan.notes, _note(plan, ram_bytes, free_bytes(plan, box)))})


def tiers_of(plan: Plan) -> Tiers | None:
    """How this version keeps conversations in system RAM; None if it cannot, as far as is known."""
    tiers = ENGINES[plan.engine].tiers
    recorded = nearest_flags(plan.engine, plan.engine_version)
    if tiers is None or recorded is None or tiers.flag not in recorded:
        return None
    return None if tiers.gpus_only and not _on_gpus(plan) else tiers


def conversation_bytes(plan: Plan) -> float | None:
    """Of one conversation of the plan's context, on all ranks."""
    if plan.kv.bytes_per_token is None:
        return None
    return plan.kv.copies * (plan.context_tokens * plan.kv.bytes_per_token + plan.kv.bytes_per_sequence)


def free_bytes(plan: Plan, box: Box) -> float | None:
    """System RAM that nothing of the plan takes; None if how much there is, is not known."""
    if any(budget.device == HOST for budget in plan.budgets):
        return plan.headroom_bytes(HOST)
    offered = host_bytes(box).value
    if offered is None:
        return None
    shared = any(device.unified for device in gpus(box))
    taken = sum(budget.capacity_bytes for budget in plan.budgets if budget.device != HOST) if shared else 0
    return offered - taken - plan.used_bytes(HOST)


def tokens_of_a_gib(plan: Plan) -> int:
    """What one more GiB of system RAM keeps of a conversation."""
    return int(GIB / (plan.kv.copies * (plan.kv.bytes_per_token or 1)))


def disk_note(tiers: Tiers) -> Note:
    return Note(code=DISK, message=f"disk: {tiers.disk}; no recipe uses it, and what it is worth here is not known")


def _objection(plan: Plan, box: Box, ram_bytes: int) -> Objection | None:
    tiers, free = tiers_of(plan), free_bytes(plan, box)
    if tiers is None:
        engine = ENGINES[plan.engine]
        why = engine.tiers.gpus_only if engine.tiers and not _on_gpus(plan) else None
        message = why or f"whether {engine.title} {plan.engine_version or ''} keeps a cache in system RAM is not known"
        return Objection(code=NONE, message=" ".join(message.split()), remedy="without --host-cache")
    if tiers.kept_bytes(plan, ram_bytes) <= 0:
        least = tiers.ram_bytes(plan, conversation_bytes(plan) or 0)
        message = (
            f"{format_memory(ram_bytes)} are less than what the GPUs' own KV cache holds, and the engine refuses that"
        )
        remedy = f"--host-cache {_gib(least)}"
        return Objection(code=TOO_SMALL, message=message, device=HOST, remedy=remedy)
    if free is not None and ram_bytes > free:
        short = int(ram_bytes - free)
        message = (
            f"{format_memory(ram_bytes)} of system RAM are asked for behind the KV cache, "
            f"{format_memory(max(0.0, free))} is free"
        )
        remedy = f"--host-cache {int(free // GIB)}" if free >= GIB else "without --host-cache"
        return Objection(code=TOO_LARGE, message=message, device=HOST, short_bytes=short, remedy=remedy)
    return None


def _budgets(plan: Plan, box: Box) -> tuple[DeviceBudget, ...]:
    """With system RAM, which plans for GPUs alone leave out."""
    known = host_bytes(box)
    if known.value is None or known.basis is None or any(budget.device == HOST for budget in plan.budgets):
        return plan.budgets
    ram = DeviceBudget(device=HOST, capacity_bytes=int(known.value), basis=known.basis, why="system RAM")
    return (*plan.budgets, ram)


def _note(plan: Plan, ram_bytes: int, free: float | None) -> Note:
    tiers, talk_bytes = tiers_of(plan), conversation_bytes(plan)
    if tiers is None or talk_bytes is None:
        return Note(code=TIER, message=f"{format_memory(ram_bytes)} of system RAM behind the KV cache")
    kept = tiers.kept_bytes(plan, ram_bytes) / talk_bytes
    message = (
        f"{format_memory(ram_bytes)} of system RAM behind the KV cache keep {kept:.3g} more conversations of "
        f"{format_tokens(plan.context_tokens)} tokens, {format_memory(talk_bytes)} each; one more GiB keeps "
        f"{format_tokens(tokens_of_a_gib(plan))} more tokens"
    )
    message += " (how much RAM is free is not known)" if free is None else ""
    return Note(code=TIER, message=message)


def _on_gpus(plan: Plan) -> bool:
    return any(budget.device != HOST for budget in plan.budgets)


def _gib(count_bytes: float) -> int:
    return -int(-count_bytes // GIB)
