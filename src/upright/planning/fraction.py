"""Engine + fraction -> what a rank may use of its GPU, and what the fraction leaves unused.

vLLM takes a share of the whole device; SGLang takes a share of what was free before loading, and lowers it by itself
for vision models: that, not the weights, left Kimi K2.5 a pool of 4,578 tokens on 8 x 96 GB.
"""

from __future__ import annotations

from fractions import Fraction

from upright.catalog import versions
from upright.planning.answer import rounded_down
from upright.planning.devices import Device
from upright.records.plan import DeviceBudget, Note
from upright.units import GIB, MIB, memory, tokens

SAFE_VLLM = 0.90
HIGHEST_VLLM, HIGHEST_SGLANG = 0.94, 0.93
UNUSED_BYTES = 8 * GIB
# Guard: "CUDA graph memory profiling is enabled (default since v0.21.0)" (vllm/v1/worker/gpu_worker.py)
_GRAPHS_COUNTED = ">=0.21"


def graphs_counted(engine: str, version: str | None) -> bool:
    """Whether the pool is what is left after CUDA graphs. An unknown version is taken for a new one."""
    return engine == "vllm" and (version is None or versions.inside(version, _GRAPHS_COUNTED))


def choose(engine: str, wanted: float | None, device: Device, tensor: int) -> tuple[float, str]:
    """The fraction to plan with, and where it comes from."""
    if wanted is not None:
        return wanted, "as asked"
    if engine == "vllm" or not device.reported_bytes:
        return SAFE_VLLM, "the safe start"
    return sglang_default(device.reported_bytes, tensor), "SGLang's own rule, for text"


def sglang_default(memory_bytes: int, tensor: int) -> float:
    """What SGLang sets --mem-fraction-static to for a text model if nobody does (sglang/srt/server_args.py, 0.5.x)."""
    total = memory_bytes / MIB
    chunk, graph_batch = _sglang_sizes(total, tensor)
    reserved = 512 + max(chunk, 2048) * 1.5 + graph_batch * 2 + tensor / 8 * 1024
    if total > 60 * 1024:
        reserved = max(reserved, 10 * 1024)
    return round((total - reserved) / total, 3)


def budget(engine: str, device: Device, fraction: float, why: str, runtime_bytes: int) -> DeviceBudget:
    if engine == "sglang":
        # Pool = fraction x (free before loading) - weights: what is gone before loading lies outside the fraction.
        before = device.cuda_bytes - runtime_bytes
        capacity = int(before * fraction) + runtime_bytes
        words = f"--mem-fraction-static {fraction:.3f} ({why}) of {memory(before)} free before loading"
    else:
        capacity = int(device.cuda_bytes * fraction)
        words = f"--gpu-memory-utilization {fraction:.2f} ({why}) of {memory(device.cuda_bytes)}"
    return DeviceBudget(device=device.name, capacity_bytes=capacity, basis=device.basis, why=words)


def unused(
    engine: str, device: Device, fraction: float, given: DeviceBudget, token_bytes: Fraction, capacity: int
) -> Note | None:
    """The note that a seed's authors would have needed."""
    highest = HIGHEST_SGLANG if engine == "sglang" else HIGHEST_VLLM
    idle = device.cuda_bytes - given.capacity_bytes
    if fraction >= highest - 0.02 or idle < UNUSED_BYTES or not token_bytes or not capacity:
        return None
    room = rounded_down(int(idle / token_bytes), 1000)
    more = int((highest - fraction) * device.cuda_bytes / token_bytes)
    spelling = ", which SGLang calls --mem-fraction-static" if engine == "sglang" else ""
    return Note(
        code="unused-memory",
        message=(
            f"the memory fraction {fraction:.3g}, not the weights, is the limit: "
            f"{memory(idle)} of each GPU stay outside, room for {tokens(room)} tokens; "
            f"at {highest} the pool would hold {tokens(rounded_down(capacity + more, 1000))}"
        ),
        remedy=f"--gpu-memory-utilization {highest}{spelling}",
    )


def _sglang_sizes(total_mib: float, tensor: int) -> tuple[int, int]:
    """Chunk of prefill and largest graph batch by memory (sglang/srt/server_args.py)."""
    small = tensor < 4
    for limit_gib, chunk, few, many in (
        (20, 2048, 8, 8),
        (35, 4096, 48, 160),
        (60, 4096, 32, 160),
        (160, 8192, 256, 512),
    ):
        if total_mib < limit_gib * 1024:
            return chunk, few if small else many
    return 16384, 512
