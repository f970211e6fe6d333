"""ik_llama.cpp: Plan -> its `llama-server` flags.

A fork with MLA modes and its own quantisation types; flags of the same name mean other things than in llama.cpp. It is
on no registry: the user brings a binary or an image.
"""

from __future__ import annotations

from collections.abc import Iterator

from upright.base.units import GIB
from upright.engines.facets.flags import FlagCase, Flags
from upright.engines.facets.tiers import host_cache_settings, saved_prompts
from upright.engines.llamacpp import flags as llamacpp
from upright.facts.records.model import MlaAttention
from upright.facts.records.recipe import Setting

_SOURCE = "ik_llama.cpp at 8337e4cd, common/common.cpp"
TIERS = saved_prompts("--cache-ram", 8 * GIB, _SOURCE, disk=llamacpp.DISK)


class IkLlamaCppFlags:
    """The words of ik_llama.cpp's HTTP server."""

    def arguments(self, case: FlagCase) -> tuple[Setting, ...]:
        return (
            *llamacpp.address_settings(case),
            *llamacpp.memory_settings(case.plan),
            *_latent_attention(case),
            *host_cache_settings(case, TIERS),
            *llamacpp.offload_settings(case),
            *llamacpp.thread_settings(case),
            *llamacpp.chat_settings(case),
            Setting(name="--metrics", reason="counters for proofs and benchmarks", source=llamacpp.SERVER_README),
        )

    def environment(self, case: FlagCase) -> tuple[Setting, ...]:
        return ()

    def notes(self, case: FlagCase) -> tuple[str, ...]:
        return (
            *llamacpp.shared_notes(case),
            "Left out on purpose: -fmoe (gone, fusing is the default), -ger (acts on BailingMoE only), --warmup-batch "
            "(used by the bench tools only), -muge (slower on Kimi K2.6), --special (shows control tokens).",
        )


FLAGS: Flags = IkLlamaCppFlags()


def _latent_attention(case: FlagCase) -> Iterator[Setting]:
    if not any(isinstance(kind, MlaAttention) for kind in case.model.architecture.attention):
        yield Setting(
            name="--cache-type-v", value=case.plan.kv.dtype, reason="values are stored as keys are", source=_SOURCE
        )
        return
    yield Setting(
        name="-mla",
        value="3",
        reason="compressed cache with the faster prompt path: the best of both modes; mainline has no such choice",
        source=f"{_SOURCE}; {llamacpp.LOCAL_RUN}",
    )
    yield Setting(
        name="-amb",
        value="512",
        reason="MiB for attention's intermediate products while prompts are read",
        source=f"{_SOURCE}; {llamacpp.LOCAL_RUN}",
    )
