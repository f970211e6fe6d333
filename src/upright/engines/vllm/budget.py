"""A share of each GPU -> what vLLM may use of it; CUDA graphs are counted in, since 0.21."""

from __future__ import annotations

from upright.base.units import GIB, format_memory
from upright.engines.facets.budget import CacheForms, CpuBuild, GpuShare, Offered
from upright.engines.memory_report import MemoryReport, Reading
from upright.facts.catalog import versions
from upright.facts.records.plan import Plan

SAFE, HIGHEST = 0.90, 0.94
# Guard: "CUDA graph memory profiling is enabled (default since v0.21.0)" (vllm/v1/worker/gpu_worker.py)
_GRAPHS_COUNTED = ">=0.21"
_LARGE_BYTES = 70 * GIB


def start(_memory_bytes: int, _ranks: int) -> tuple[float, str]:
    return SAFE, "the safe start"


def offered(cuda_bytes: int, share: float, origin: str, _gone_bytes: int) -> Offered:
    """A share of the whole device."""
    why = f"--gpu-memory-utilization {share:.2f} ({origin}) of {format_memory(cuda_bytes)}"
    return Offered(int(cuda_bytes * share), why)


def own_sequences(memory_bytes: int, capability: str | None) -> int:
    """A server's default: by memory, and an A100 is not among the large (vllm/engine/arg_utils.py, 0.10 to 0.32)."""
    return 1024 if memory_bytes >= _LARGE_BYTES and capability != "8.0" else 256


def graphs_counted(version: str | None) -> bool:
    return version is None or versions.in_range(version, _GRAPHS_COUNTED)


def runtime(plan: Plan, report: MemoryReport, device: str) -> Reading | None:
    """What the share held beside weights, cache and the graphs that it had estimated."""
    weights, cache = report.of("weights", device), report.of("kv_cache", device)
    if weights is None or cache is None or plan.memory_fraction is None:
        return None
    given = report.of("requested", device)
    took = given.value if given else float(sum(x.capacity_bytes for x in plan.budgets if x.device == device))
    reserved = report.of("graphs_reserved", device) if graphs_counted(plan.engine_version) else None
    parts = [part for part in (weights, cache, reserved, given) if part is not None]
    taken = sum(part.value for part in parts if part is not given)
    formula = " - ".join(["what it may take", "weights", "cache", *(["graphs as estimated"] if reserved else [])])
    return Reading("runtime", took - taken, formula, device, sum(part.rounding for part in parts))


BUDGET = GpuShare(
    option="--gpu-memory-utilization",
    highest=HIGHEST,
    start=start,
    offered=offered,
    graphs_counted=graphs_counted,
    runtime=runtime,
    own_sequences=own_sequences,
    padded_experts=frozenset({"mxfp4"}),
    block_tokens=16,
    # Guard: sparse MLA on SM120 needs the packed layout (https://github.com/vllm-project/vllm/pull/43477)
    cache=CacheForms(sparse_latent="fp8_ds_mla", fp8_latent_patch="triton-mla-fp8-sm120"),
    cpu_build=CpuBuild(
        is_build=lambda version: (version or "").endswith("+cpu"),
        # vLLM's own block on a CPU; the plain MLA kernel takes 16, and a pool of whole 128s is whole in those too
        # (vllm/platforms/cpu.py at 0.32.0).
        block_tokens=128,
        # Guard: block 0 is never given to a request (vllm/v1/core/block_pool.py, null_block).
        unused_blocks=1,
        unused_words="vLLM's empty block",
        # CPU_MLA and AMX_MLA read one type, by whatever name: any other dies on the first request
        # (vllm/v1/attention/backends/mla/cpu_mla.py and amx_mla.py at 0.32.0; failures/vllm-cpu-fp8-cache).
        latent_types=("bf16", "bfloat16", "auto"),
    ),
)
