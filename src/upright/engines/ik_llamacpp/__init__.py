"""ik_llama.cpp: a fork of llama.cpp with MLA modes and its own quantisation types."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from upright.engines.contract import Engine, Facet
from upright.engines.facets.releases import BUILD, COMMIT, Releases
from upright.engines.facets.spread import Layers
from upright.engines.llamacpp import HTTP, MARGIN

if TYPE_CHECKING:
    from upright.engines.facets.finding import ProgramFinding
    from upright.engines.facets.flags import Flags
    from upright.engines.facets.log import Log
    from upright.engines.facets.metrics import MetricNames
    from upright.engines.facets.proof import EngineProof
    from upright.engines.facets.speculation import Speculating
    from upright.engines.facets.tiers import Tiers


class IkLlamaCpp(Engine):
    """ik_llama.cpp's HTTP server."""

    name = "ik_llama.cpp"
    title = "ik_llama.cpp"
    loads = ("gguf",)
    cache_types = ("f16", "f32", "bf16", "q8_0", "q6_0", "q5_1", "q5_0", "q4_1", "q4_0", "iq4_nl")
    program = "llama-server"
    # ik-llama-cpp-python on PyPI has its libraries for processors, and no server.
    where_from = "a build of your own: https://github.com/ikawrakow/ik_llama.cpp (nobody publishes its server)"
    standing = 3
    standing_hybrid = 2
    http = HTTP._replace(server="ik_llama.cpp")
    budget = MARGIN
    spread = Layers(fork_types=True)
    # It has no releases: its commits have no order, and its builds are counted apart from llama.cpp's.
    releases = Releases(rf"{BUILD}|{COMMIT}", ordered=False)

    constrained_by: ClassVar[Mapping[str, str]] = {"--cache-type-k": "cache_type", "-ctk": "cache_type"}

    flags: Facet[Flags] = Facet("upright.engines.ik_llamacpp.flags:FLAGS")
    log: Facet[Log] = Facet("upright.engines.ik_llamacpp.log:LOG")
    metrics: Facet[MetricNames] = Facet("upright.engines.llamacpp.metrics:METRICS")
    finding: Facet[ProgramFinding] = Facet("upright.engines.ik_llamacpp.finding:FINDING")
    proof: Facet[EngineProof] = Facet("upright.engines.ik_llamacpp.proof:PROOF")
    speculation: Facet[Speculating] = Facet("upright.engines.ik_llamacpp.speculation:SPECULATION")
    tiers: Facet[Tiers] = Facet("upright.engines.ik_llamacpp.flags:TIERS")


ENGINE = IkLlamaCpp()
