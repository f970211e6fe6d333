"""A share of what is free before loading -> what SGLang may use of a GPU.

It lowers the share by itself for vision models: that, not the weights, left Kimi K2.5 a pool of 4,578 tokens on
8 x 96 GB.
"""

from __future__ import annotations

from upright.base.units import MIB, format_memory
from upright.engines.facets.budget import GpuShare, Offered
from upright.engines.memory_report import MemoryReport, Reading
from upright.facts.records.plan import Plan

SAFE, HIGHEST = 0.90, 0.93


def start(memory_bytes: int, ranks: int) -> tuple[float, str]:
    if not memory_bytes:
        return SAFE, "the safe start"
    return default_share(memory_bytes, ranks), "SGLang's own rule, for text"


def default_share(memory_bytes: int, ranks: int) -> float:
    """What SGLang sets --mem-fraction-static to for a text model if nobody does (sglang/srt/server_args.py, 0.5.x)."""
    total = memory_bytes / MIB
    chunk, graph_batch = _sizes(total, ranks)
    reserved = 512 + max(chunk, 2048) * 1.5 + graph_batch * 2 + ranks / 8 * 1024
    if total > 60 * 1024:
        reserved = max(reserved, 10 * 1024)
    return round((total - reserved) / total, 3)


def offered(cuda_bytes: int, share: float, origin: str, gone_bytes: int) -> Offered:
    """Pool = share x (free before loading) - weights: what is gone before loading lies outside the share."""
    before = cuda_bytes - gone_bytes
    why = f"--mem-fraction-static {share:.3f} ({origin}) of {format_memory(before)} free before loading"
    return Offered(int(before * share) + gone_bytes, why)


def runtime(plan: Plan, report: MemoryReport, device: str) -> Reading | None:
    """The share is of what is free before loading: what CUDA shows less that."""
    free = report.of("free_before", device)
    took = next((budget.capacity_bytes for budget in plan.budgets if budget.device == device), None)
    planned = sum(line.bytes for line in plan.ledger if line.device == device and line.term == "runtime")
    if free is None or took is None or not plan.memory_fraction:
        return None
    shown = (took - planned) / plan.memory_fraction + planned
    return Reading("runtime", shown - free.value, f"what CUDA shows less: {free.line}", device, free.rounding)


def _sizes(total_mib: float, ranks: int) -> tuple[int, int]:
    """Chunk of prefill and largest graph batch by memory (sglang/srt/server_args.py)."""
    small = ranks < 4
    for limit_gib, chunk, few, many in (
        (20, 2048, 8, 8),
        (35, 4096, 48, 160),
        (60, 4096, 32, 160),
        (160, 8192, 256, 512),
    ):
        if total_mib < limit_gib * 1024:
            return chunk, few if small else many
    return 16384, 512


BUDGET = GpuShare(
    option="--mem-fraction-static",
    highest=HIGHEST,
    start=start,
    offered=offered,
    graphs_counted=lambda _: False,
    runtime=runtime,
)
