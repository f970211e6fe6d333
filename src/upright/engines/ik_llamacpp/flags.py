"""ik_llama.cpp: Plan -> its `llama-server` flags.

A fork with MLA modes and its own quantisation types; flags of the same name mean other things than in llama.cpp. Nobody
publishes its server: the user brings a binary or an image.
"""

from __future__ import annotations

from collections.abc import Iterator

from upright.base.units import GIB
from upright.engines import model_settings
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
            *_threads_without_gpus(case),
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


def _threads_without_gpus(case: FlagCase) -> Iterator[Setting]:
    """Its own choice is every core, and they wait for each other by spinning: one that is busy elsewhere stops all."""
    cores = case.box.cpu.cores
    if case.box.gpus or not cores or model_settings.experts_offloaded(case.plan):
        return
    yield Setting(
        name="--threads",
        value=str(max(1, cores - 1)),
        reason="a core stays free: threads wait by spinning, and one that is held up holds up all (4 for 1,039 tok/s)",
        source="ik_llama.cpp on two busy cores, a model of 1.2 MB",
    )


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
