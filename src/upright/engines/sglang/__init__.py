"""SGLang: a rank a GPU; weights and cache together in a share of what is free before loading."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from upright.engines.contract import Engine, Facet
from upright.engines.facets.http import Http
from upright.engines.facets.releases import RELEASE, Releases
from upright.engines.facets.spread import Ranks, by_flag

if TYPE_CHECKING:
    from upright.engines.facets.budget import GpuShare
    from upright.engines.facets.finding import PackageFinding
    from upright.engines.facets.flags import Flags
    from upright.engines.facets.kernels import TritonKernels
    from upright.engines.facets.log import Log
    from upright.engines.facets.metrics import MetricNames
    from upright.engines.facets.proof import EngineProof
    from upright.engines.facets.speculation import Speculating
    from upright.engines.facets.tiers import Tiers

SHARED_LATENT = "flashinfer"


class Sglang(Engine):
    """SGLang's OpenAI-compatible server."""

    name = "sglang"
    title = "SGLang"
    loads = ("safetensors",)
    runs_on = (">=7.5", "gfx942", "gfx950")  # Guard: sgl_kernel has no code below it
    cache_types = ("bf16", "bfloat16", "auto", "fp8", "fp8_e4m3", "fp8_e5m2")
    program = "python3"
    where_from = "pip install sglang, or the image lmsysorg/sglang"
    standing = 2
    # Guard: /health, /ready and /metrics answer without a key (sglang/srt/utils/auth.py at 0.5.23).
    http = Http("/health", "/metrics", metrics_guarded=False, key_way="config", owner="sglang")
    spread = Ranks(
        vision="replicated",
        sharing=by_flag("sglang", "--dcp-size", latent_backend=SHARED_LATENT),
        replicas_in_ranks=True,
    )
    releases = Releases(RELEASE, image=lambda version: f"lmsysorg/sglang:v{version.partition('+')[0]}")

    constrained_by: ClassVar[Mapping[str, str]] = {
        "--tp-size": "tensor",
        "--tensor-parallel-size": "tensor",
        "--tp": "tensor",
        "--pp-size": "pipeline",
        "--pipeline-parallel-size": "pipeline",
        "--dcp-size": "decode_context",
        "--decode-context-parallel-size": "decode_context",
        "--dp-size": "data",
        "--ep-size": "expert_parallel",
        "--expert-parallel-size": "expert_parallel",
        "--ep": "expert_parallel",
        "--mem-fraction-static": "memory_fraction",
        "--kv-cache-dtype": "cache_type",
        "--attention-backend": "backend",
        "--moe-runner-backend": "expert_backend",
        "--reasoning-parser": "reasoning_parser",
        "--tool-call-parser": "tool_parser",
        "--speculative-algorithm": "draft",
        "--disable-custom-all-reduce": "custom_all_reduce_off",
    }

    flags: Facet[Flags] = Facet("upright.engines.sglang.flags:FLAGS")
    budget: Facet[GpuShare] = Facet("upright.engines.sglang.budget:BUDGET")
    log: Facet[Log] = Facet("upright.engines.sglang.log:LOG")
    metrics: Facet[MetricNames] = Facet("upright.engines.sglang.metrics:METRICS")
    finding: Facet[PackageFinding] = Facet("upright.engines.sglang.finding:FINDING")
    proof: Facet[EngineProof] = Facet("upright.engines.facets.proof:in_python", __file__)
    kernels: Facet[TritonKernels] = Facet("upright.engines.sglang.kernels:KERNELS")
    speculation: Facet[Speculating] = Facet("upright.engines.sglang.speculation:SPECULATION")
    tiers: Facet[Tiers] = Facet("upright.engines.sglang.flags:TIERS")


ENGINE = Sglang()
