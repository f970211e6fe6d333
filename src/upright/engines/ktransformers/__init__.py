"""KTransformers: SGLang with kt-kernel: attention on GPUs, routed experts in system RAM, computed by the CPU."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from upright.engines.contract import Engine, Facet
from upright.engines.facets.http import Http
from upright.engines.facets.releases import RELEASE, Releases
from upright.engines.facets.spread import HostExperts, Ranks
from upright.engines.ktransformers.cpu_formats import host_format
from upright.engines.sglang import ENGINE as SGLANG

if TYPE_CHECKING:
    from upright.engines.facets.budget import GpuShare
    from upright.engines.facets.finding import PackageFinding
    from upright.engines.facets.flags import Flags
    from upright.engines.facets.log import Log
    from upright.engines.facets.metrics import MetricNames
    from upright.engines.facets.proof import EngineProof


class Ktransformers(Engine):
    """The fork of SGLang's server that kt-kernel brings (`sglang-kt`)."""

    name = "ktransformers"
    title = "KTransformers"
    loads = ("safetensors",)
    cache_types = ("bf16", "bfloat16", "auto", "fp8", "fp8_e4m3", "fp8_e5m2")
    program = "python3"
    where_from = "pip install kt-kernel sglang-kt, in an environment without SGLang: both install a package `sglang`"
    standing = 4
    by_name_only = True
    # It says owned_by sglang, as the server that it is a fork of.
    http = Http("/health", "/metrics", metrics_guarded=False, key_way="config")
    # Guard: RAM holds every expert, those on GPUs too (https://github.com/kvcache-ai/ktransformers/issues/2084).
    spread = Ranks(vision="replicated", drafts=False, host_experts=HostExperts(format_of=host_format))
    releases = Releases(RELEASE)

    constrained_by: ClassVar[Mapping[str, str]] = SGLANG.constrained_by

    flags: Facet[Flags] = Facet("upright.engines.ktransformers.flags:FLAGS")
    budget: Facet[GpuShare] = Facet("upright.engines.sglang.budget:BUDGET")
    log: Facet[Log] = Facet("upright.engines.ktransformers.log:LOG")
    metrics: Facet[MetricNames] = Facet("upright.engines.sglang.metrics:METRICS")
    finding: Facet[PackageFinding] = Facet("upright.engines.ktransformers.finding:FINDING")
    proof: Facet[EngineProof] = Facet("upright.engines.ktransformers.proof:PROOF")


ENGINE = Ktransformers()
