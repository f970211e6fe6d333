"""vLLM: a rank a GPU; the cache fills what weights and graphs leave of a share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from upright.engines.contract import Engine, Facet
from upright.engines.facets.http import Http
from upright.engines.facets.releases import RELEASE, Releases
from upright.engines.facets.spread import Ranks, always

if TYPE_CHECKING:
    from upright.engines.facets.bench import BenchTool
    from upright.engines.facets.budget import GpuShare
    from upright.engines.facets.finding import PackageFinding
    from upright.engines.facets.flags import Flags
    from upright.engines.facets.kernels import TritonKernels
    from upright.engines.facets.log import Log
    from upright.engines.facets.metrics import MetricNames
    from upright.engines.facets.proof import EngineProof
    from upright.engines.facets.speculation import Speculating
    from upright.engines.facets.tiers import Tiers


class Vllm(Engine):
    """vLLM's OpenAI-compatible server."""

    name = "vllm"
    title = "vLLM"
    loads = ("safetensors",)
    runs_on = (">=7.5", "gfx942", "gfx950")  # Guard: docs/getting_started/installation/gpu.cuda.inc.md
    cache_types = ("bf16", "bfloat16", "f16", "auto", "fp8", "fp8_e4m3", "fp8_e5m2", "fp8_ds_mla")
    program = "vllm"
    where_from = "pip install vllm, or the image vllm/vllm-openai"
    standing = 0
    # Guard: the key guards /v1 alone (vllm/entrypoints/serve/middleware/authenticate.py at 0.32.0).
    http = Http(
        "/health", "/metrics", metrics_guarded=False, key_way="environment", owner="vllm", reads_x_api_key=False
    )
    spread = Ranks(vision="divided", sharing=always(), replicas_in_ranks=False, uneven_stages="VLLM_PP_LAYER_PARTITION")
    releases = Releases(RELEASE, image=lambda version: f"vllm/vllm-openai:v{version.partition('+')[0]}")

    constrained_by: ClassVar[Mapping[str, str]] = {
        "--tensor-parallel-size": "tensor",
        "-tp": "tensor",
        "--pipeline-parallel-size": "pipeline",
        "-pp": "pipeline",
        "--decode-context-parallel-size": "decode_context",
        "-dcp": "decode_context",
        "--data-parallel-size": "data",
        "-dp": "data",
        "--enable-expert-parallel": "expert_parallel",
        "-ep": "expert_parallel",
        "--gpu-memory-utilization": "memory_fraction",
        "--kv-cache-dtype": "cache_type",
        "--attention-backend": "backend",
        "--moe-backend": "expert_backend",
        "--reasoning-parser": "reasoning_parser",
        "--tool-call-parser": "tool_parser",
        "--speculative-config": "draft",
        "--disable-custom-all-reduce": "custom_all_reduce_off",
    }

    flags: Facet[Flags] = Facet("upright.engines.vllm.flags:FLAGS")
    budget: Facet[GpuShare] = Facet("upright.engines.vllm.budget:BUDGET")
    log: Facet[Log] = Facet("upright.engines.vllm.log:LOG")
    metrics: Facet[MetricNames] = Facet("upright.engines.vllm.metrics:METRICS")
    finding: Facet[PackageFinding] = Facet("upright.engines.vllm.finding:FINDING")
    proof: Facet[EngineProof] = Facet("upright.engines.facets.proof:in_python", __file__, "payload")
    kernels: Facet[TritonKernels] = Facet("upright.engines.vllm.kernels:KERNELS")
    bench: Facet[BenchTool] = Facet("upright.engines.vllm.bench:TOOL")
    speculation: Facet[Speculating] = Facet("upright.engines.vllm.speculation:SPECULATION")
    tiers: Facet[Tiers] = Facet("upright.engines.vllm.flags:TIERS")


ENGINE = Vllm()
