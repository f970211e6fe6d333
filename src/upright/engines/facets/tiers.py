"""Bytes of conversations that a KV cache has no room for -> system RAM behind it, as an engine is told to use it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from upright.records.plan import Plan
from upright.units import GIB, MIB


@dataclass(frozen=True)
class HostTier:
    """What keeps conversations in system RAM while they wait."""

    words: tuple[str, ...]
    """Flags for the command line; none where the engine does it by itself."""
    memory_bytes: float
    """System RAM that it takes, on all ranks together."""


@dataclass(frozen=True)
class Tiers:
    """The facet of an engine that can keep its cache in system RAM too."""

    flag: str
    """The one without which a version cannot."""
    host: Callable[[Plan, float], HostTier]
    """For so many bytes of conversations, counted on all ranks."""


def whole_buffer(flag: str) -> Tiers:
    """A buffer in GiB that all ranks have together."""

    def host(_: Plan, kept_bytes: float) -> HostTier:
        size = math.ceil(kept_bytes / GIB)
        return HostTier((flag, f"{size}"), size * GIB)

    return Tiers(flag, host)


def saved_prompts(flag: str, usual_bytes: int) -> Tiers:
    """Whole conversations that are put aside, up to so many MiB; the engine's own default may be enough."""

    def host(_: Plan, kept_bytes: float) -> HostTier:
        if kept_bytes <= usual_bytes:
            return HostTier((), kept_bytes)
        size = math.ceil(kept_bytes / MIB)
        return HostTier((flag, f"{size}"), size * MIB)

    return Tiers(flag, host)


def second_level(switch: str, flag: str, spare: float) -> Tiers:
    """A pool in GB on each rank that holds what the GPU's holds and more: one that is smaller is refused."""

    def host(plan: Plan, kept_bytes: float) -> HostTier:
        ranks = plan.parallel.tensor * plan.parallel.pipeline
        pool = plan.kv.high_tokens * (plan.kv.bytes_per_token or 0.0) * plan.kv.copies
        size = math.ceil(spare * (pool + kept_bytes) / ranks / 1e9)
        return HostTier((switch, flag, f"{size}"), size * ranks * 1e9)

    return Tiers(flag, host)
