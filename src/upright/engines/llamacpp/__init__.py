"""llama.cpp: whole layers on devices, experts where there is room."""

from __future__ import annotations

from typing import TYPE_CHECKING

from upright.base.units import GIB
from upright.engines.contract import Engine, Facet
from upright.engines.facets.budget import Margin
from upright.engines.facets.http import Http
from upright.engines.facets.releases import BUILD, Releases
from upright.engines.facets.spread import Layers

if TYPE_CHECKING:
    from upright.engines.facets.bench import BenchTool
    from upright.engines.facets.finding import ProgramFinding
    from upright.engines.facets.flags import Flags
    from upright.engines.facets.log import Log
    from upright.engines.facets.metrics import MetricNames
    from upright.engines.facets.proof import EngineProof
    from upright.engines.facets.speculation import Speculating
    from upright.engines.facets.tiers import Tiers

# Guard: all but /health, /models and the pages want the key (answers 401 at b11669; so does ik_llama.cpp).
HTTP = Http("/health", "/metrics", metrics_guarded=True, key_way="file", owner="llama", slots=True)
# llama.cpp's own --fit-target leaves this much of each GPU free.
MARGIN = Margin(GIB)


class LlamaCpp(Engine):
    """Mainline llama.cpp's HTTP server."""

    name = "llama.cpp"
    title = "llama.cpp"
    loads = ("gguf",)
    runs_on = ("nvidia", "amd", "apple", "intel")
    cache_types = ("f16", "f32", "bf16", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0", "iq4_nl")
    program = "llama-server"
    fetches_builds = True
    offline_variable = "LLAMA_ARG_OFFLINE"
    where_from = "Debian's llama.cpp-tools, Homebrew's llama.cpp, or https://github.com/ggml-org/llama.cpp/releases"
    standing = 1
    # ik_llama.cpp is faster at prefill and decode with experts offloaded to CPU (20.9 against 15.4 tok/s, 2026-04).
    standing_hybrid = 3
    http = HTTP
    budget = MARGIN
    spread = Layers()
    releases = Releases(BUILD)

    flags: Facet[Flags] = Facet("upright.engines.llamacpp.flags:FLAGS")
    log: Facet[Log] = Facet("upright.engines.llamacpp.log:LOG")
    metrics: Facet[MetricNames] = Facet("upright.engines.llamacpp.metrics:METRICS")
    finding: Facet[ProgramFinding] = Facet("upright.engines.llamacpp.finding:FINDING")
    proof: Facet[EngineProof] = Facet("upright.engines.llamacpp.proof:PROOF")
    bench: Facet[BenchTool] = Facet("upright.engines.llamacpp.bench:TOOL")
    speculation: Facet[Speculating] = Facet("upright.engines.llamacpp.speculation:SPECULATION")
    tiers: Facet[Tiers] = Facet("upright.engines.llamacpp.flags:TIERS")


ENGINE = LlamaCpp()
