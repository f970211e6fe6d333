"""MLX: mlx-lm's server on Apple's GPUs, whose memory is the machine's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from upright.base.units import GIB
from upright.engines.contract import Engine, Facet
from upright.engines.facets.budget import Margin
from upright.engines.facets.http import Http
from upright.engines.facets.releases import RELEASE, Releases
from upright.engines.facets.spread import Layers, PromptScratch

if TYPE_CHECKING:
    from upright.engines.facets.finding import PackageFinding
    from upright.engines.facets.flags import Flags
    from upright.engines.facets.log import Log
    from upright.engines.facets.speculation import Speculating


class Mlx(Engine):
    """`mlx_lm.server`."""

    name = "mlx"
    title = "MLX"
    loads = ("safetensors",)
    runs_on = ("apple",)
    only_there = True
    own_packing = "mlx"
    cache_types = ("bf16", "q8_0", "q4_0")
    program = "mlx_lm.server"
    where_from = "pip install mlx-lm"
    standing = 2
    # Guard: any other name is fetched from the hub, and what was loaded is dropped first (0.32.2 server.py:387-421).
    http = Http(
        "/health",
        None,
        metrics_guarded=False,
        key_way="file",
        healthy_while_loading=True,  # Guard: it asks whether a thread lives, which then loads (server.py:549,782)
        only_name="default_model",
        limits_context=False,
    )
    # Guard: MLX warns from nine tenths of the working set on, and its own limit lies above all memory.
    budget = Margin(GIB)
    # Guard: only caches are evaluated while a prompt is read; MLA's scores are an array (models/deepseek_v3.py:146).
    spread = Layers(scratch=PromptScratch(logits=False, latent_scores=True))
    releases = Releases(RELEASE)

    constrained_by: ClassVar[Mapping[str, str]] = {"--kv-bits": "cache_type", "--draft-model": "draft"}

    flags: Facet[Flags] = Facet("upright.engines.mlx.flags:FLAGS")
    log: Facet[Log] = Facet("upright.engines.mlx.log:LOG")
    finding: Facet[PackageFinding] = Facet("upright.engines.mlx.finding:FINDING")
    speculation: Facet[Speculating] = Facet("upright.engines.mlx.speculation:SPECULATION")


ENGINE = Mlx()
