"""System RAM behind a KV cache, for conversations that wait -> what it keeps, and the engine's own flags for it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from upright.base.units import GIB, MIB, format_memory
from upright.engines.facets.flags import FlagCase
from upright.facts.records.plan import Plan
from upright.facts.records.recipe import Setting

HOST_CACHE = "host_cache"
"""The ledger's term of it."""
_WHY = "conversations that wait for their tools are kept in system RAM, not read again"


class Tiers(NamedTuple):
    """The facet of an engine that can keep its cache in system RAM too."""

    flag: str
    """The one without which a version cannot."""
    ram_bytes: Callable[[Plan, float], float]
    """System RAM, on all ranks together and in the flag's unit, for so many bytes of conversations."""
    kept_bytes: Callable[[Plan, float], float]
    """Bytes of conversations that so much of it keeps beside the KV cache's own; the engine refuses what keeps none."""
    settings: Callable[[Plan, float], tuple[Setting, ...]]
    """The words for so much of it."""
    disk: str
    """What there is behind system RAM, in words."""
    usual_bytes: int = 0
    """What the engine takes by itself."""
    gpus_only: str | None = None
    """Why there is none where the cache itself is in system RAM; None: there is."""

    def needs_no_words(self, kept_bytes: float) -> bool:
        return kept_bytes <= self.usual_bytes


def host_cache_bytes(plan: Plan) -> int:
    """System RAM that the plan gives the engine's host tier; 0 if nobody asked for one."""
    return sum(line.bytes for line in plan.ledger if line.term == HOST_CACHE)


def host_cache_settings(case: FlagCase, tiers: Tiers) -> tuple[Setting, ...]:
    """The words of the tier that was asked for."""
    given = host_cache_bytes(case.plan)
    return tiers.settings(case.plan, given) if given else ()


def whole_buffer(flag: str, source: str, *, disk: str, gpus_only: str) -> Tiers:
    """A buffer in GiB that all ranks have together."""

    def settings(_: Plan, ram_bytes: float) -> tuple[Setting, ...]:
        reason = f"{_WHY}: {format_memory(ram_bytes)} in GiB, all ranks together"
        return (Setting(name=flag, value=f"{ram_bytes / GIB:g}", reason=reason, source=source),)

    return Tiers(
        flag,
        ram_bytes=lambda _, kept: math.ceil(kept / GIB) * GIB,
        kept_bytes=lambda _, ram: ram,
        settings=settings,
        disk=disk,
        gpus_only=gpus_only,
    )


def saved_prompts(flag: str, usual_bytes: int, source: str, *, disk: str) -> Tiers:
    """Whole conversations that are put aside, up to so many MiB; the engine's own default may be enough."""

    def settings(_: Plan, ram_bytes: float) -> tuple[Setting, ...]:
        reason = f"{_WHY}: {format_memory(ram_bytes)} in MiB; {format_memory(usual_bytes)} if nothing is said"
        return (Setting(name=flag, value=f"{int(ram_bytes // MIB)}", reason=reason, source=source),)

    return Tiers(
        flag,
        ram_bytes=lambda _, kept: math.ceil(kept / MIB) * MIB,
        kept_bytes=lambda _, ram: ram,
        settings=settings,
        disk=disk,
        usual_bytes=usual_bytes,
    )


def second_level(switch: str, flag: str, source: str, *, spare: float, disk: str) -> Tiers:
    """A pool in GB on each rank that holds what the GPU's holds and more: one that is smaller is refused."""

    def size(plan: Plan, ram_bytes: float) -> int:
        return int(ram_bytes / _ranks(plan) / 1e9 + 1e-9)

    def settings(plan: Plan, ram_bytes: float) -> tuple[Setting, ...]:
        gigabytes = size(plan, ram_bytes)
        reason = f"GB on each of {_ranks(plan)} ranks; it holds what the GPU's pool holds too, and must be larger"
        return (
            Setting(name=switch, reason=_WHY, source=source),
            Setting(name=flag, value=f"{gigabytes}", reason=reason, source=source),
        )

    return Tiers(
        flag,
        ram_bytes=lambda plan, kept: math.ceil(spare * (_pool(plan) + kept) / _ranks(plan) / 1e9) * _ranks(plan) * 1e9,
        kept_bytes=lambda plan, ram: size(plan, ram) * _ranks(plan) * 1e9 / spare - _pool(plan),
        settings=settings,
        disk=disk,
        gpus_only="HiCache lies between a GPU's pool and system RAM",
    )


def _ranks(plan: Plan) -> int:
    return plan.parallel.ranks


def _pool(plan: Plan) -> float:
    """Bytes of the KV cache on all ranks."""
    return plan.kv.high_tokens * (plan.kv.bytes_per_token or 0.0) * plan.kv.copies
