"""An engine's share of a GPU (`--gpu-memory-utilization`): what a rank may use, and what stays unused."""

from __future__ import annotations

from collections.abc import Callable

from upright.base.units import GIB, format_memory, format_tokens
from upright.engines import engine_named
from upright.engines.facets.budget import GpuShare
from upright.facts.records.plan import DeviceBudget, Note
from upright.planning.placement.devices import Device
from upright.planning.placement.plan_limits import rounded_down

OPTION = "--gpu-memory-utilization"
"""As people ask us for it, whichever engine."""
UNUSED_BYTES = 8 * GIB


def gpu_share(engine: str) -> GpuShare | None:
    """None if the engine takes no share of a GPU, or nobody knows."""
    budget = engine_named(engine).budget
    return budget if isinstance(budget, GpuShare) else None


def graphs_counted(engine: str, version: str | None) -> bool:
    """Whether the pool is what is left after CUDA graphs."""
    share = gpu_share(engine)
    return share is not None and share.graphs_counted(version)


def choose(share: GpuShare, wanted: float | None, device: Device, tensor: int) -> tuple[float, str]:
    """The fraction to plan with, and where it comes from."""
    return (wanted, "as asked") if wanted is not None else share.start(device.reported_bytes, tensor)


def budget(share: GpuShare, device: Device, fraction: float, why: str, runtime_bytes: int) -> DeviceBudget:
    offered = share.offered(device.cuda_bytes, fraction, why, runtime_bytes)
    return DeviceBudget(device=device.name, capacity_bytes=offered.capacity_bytes, basis=device.basis, why=offered.why)


def little_outside(engine: str, share: GpuShare, device: Device, fraction: float, ranks: int) -> Note | None:
    """The note where less than half of what the engine itself would leave is left outside its share."""
    own, _ = share.start(device.reported_bytes, ranks)
    left, usual = (1 - fraction) * device.cuda_bytes, (1 - own) * device.cuda_bytes
    if device.unified or left >= usual / 2:
        return None
    return Note(
        code="little-outside",
        message=(
            f"{format_memory(int(left))} of each GPU are left outside a share of {fraction:.3g}, where {engine} by "
            f"its own default leaves {format_memory(int(usual))}: what is allocated there after the cache may not fit"
        ),
        remedy=f"{OPTION} {own:.3g}",
    )


def unused(
    engine: str,
    share: GpuShare,
    device: Device,
    fraction: float,
    given: DeviceBudget,
    runtime_bytes: int,
    tokens_with: Callable[[int], int],
) -> Note | None:
    """The note that a seed's authors would have needed; what the system shares is not unused.

    `tokens_with`: what the cache would hold with so many bytes more.
    """
    if device.unified:
        return None
    idle, capacity = device.cuda_bytes - given.capacity_bytes, tokens_with(0)
    if fraction >= share.highest - 0.02 or idle < UNUSED_BYTES or not capacity:
        return None
    room = rounded_down(tokens_with(idle) - capacity, 1000)
    more = budget(share, device, share.highest, "", runtime_bytes).capacity_bytes - given.capacity_bytes
    spelling = "" if share.option == OPTION else f", which {engine_named(engine).title} calls {share.option}"
    return Note(
        code="unused-memory",
        message=(
            f"--gpu-memory-utilization {fraction:.3g}, not the weights, is the limit: "
            f"{format_memory(idle)} of each GPU stay unused, KV cache for {format_tokens(room)} tokens; "
            f"at {share.highest} the KV cache holds {format_tokens(rounded_down(tokens_with(more), 1000))}"
        ),
        remedy=f"{OPTION} {share.highest}{spelling}",
    )
