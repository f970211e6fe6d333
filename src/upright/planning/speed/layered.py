"""The amounts of work of a decode step and of prefill, for engines that put whole layers on devices.

One device works at a time. What lives in system RAM is read by the processor to decode, and copied to a GPU over PCIe
to read a prompt, once for every ubatch: that is why long ubatches read faster.

The processor's time is a sum: the channels bring the weights, the cores multiply them, and every layer is handed over.
Two channels are slower than any cores; behind twelve the cores and the handing over take as long as the channels.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

from upright.facts.catalog.rows.speed import Kernels
from upright.planning.speed.decode import Amount
from upright.planning.speed.work import AttentionReader, GpuFigures, GpuPart, Work, distinct_experts

HOST_HEADS = 8
"""Query heads for which a processor reads a latent cache once: runs without a GPU slow down by that much a context."""


BOUND_TO_NONE = 0.57
"""Of what one of several sockets does alone, an engine that is bound to none of them, whose weights lie on either.

Two Xeon 6138 did 0.60 (ik_llama.cpp discussion 385: 2.4, 2.3 and 2.1 tok/s), two EPYC 9115 0.57 (393: 8.65 at 17k), two
Xeon 8480+ 0.46 (396: 27 tok/s, and 40 bound to one). Each foretold by the middle of the others is 17 % off at most.
Two EPYC 9355 in four nodes each (about 0.4) and two Xeon E5-2690 v3 (over 1) do not agree; few tell where memory lay.
"""


class HostFigures(NamedTuple):
    """The figures of a machine that hybrid speed hangs on."""

    bandwidth: float
    """Bytes a second of system RAM."""
    measured: bool
    """Whether somebody measured that, or it is theoretical."""
    slot: float | None = None
    """Bytes a second of a GPU's PCIe slot; None if not known."""
    sockets: int = 1
    """Sockets that the engine may run on."""

    @property
    def share(self) -> float:
        """Of what one socket's channels and cores do."""
        return BOUND_TO_NONE if self.sockets > 1 else 1.0


class Layered(NamedTuple):
    """Where the experts of a model live."""

    work: Work
    silicon: GpuFigures | None
    """None without a GPU: then everything is in system RAM."""
    host: HostFigures
    expert_layers: int
    """Layers that have experts."""
    host_layers: int
    """Those whose experts are in system RAM."""
    parts: tuple[GpuPart, ...] = ()
    """The GPUs that `silicon` stands for."""


def layered_step(case: Layered, kernels: Kernels, *, batch: int, context: float, skew: float) -> Iterable[Amount]:
    work = case.work
    # `expert_bytes` is one expert in every layer that has experts. Few tokens are multiplied one by one.
    alone = batch <= kernels.separate_rows and case.silicon is not None
    experts = float(batch * work.active) if alone else distinct_experts(work.experts, work.active, batch, skew)
    woken = experts * work.expert_bytes
    in_memory = woken * case.host_layers / case.expert_layers if case.expert_layers else 0.0
    if case.silicon is None:
        cached = batch * sum(_cached(reader, context) * _readings(reader) for reader in work.readers)
        multiplied = batch * (work.always_bytes + work.active * work.expert_bytes)
        yield from _processor(case, work.always_bytes + woken, multiplied, cached, work.layers)
        return
    yield Amount("layers", "layer_us", work.layers)
    yield Amount("layers", "expert_layer_us", work.expert_layers)
    yield Amount("layers", "active_expert_us", work.expert_layers * work.active)
    yield Amount("layers", "latent_layer_us", work.latent_layers)
    yield Amount("layers", "recurrent_layer_us", work.recurrent_layers)
    read = work.always_bytes + woken - in_memory
    yield Amount("weights", "weight_efficiency", read / case.silicon.bandwidth)
    for reader in work.readers:
        efficiency = "cache_efficiency" if reader.latent else "grouped_efficiency"
        yield Amount("cache", efficiency, batch * _cached(reader, context) / case.silicon.bandwidth)
    if in_memory:
        multiplied = batch * work.active * work.expert_bytes * case.host_layers / case.expert_layers
        yield from _processor(case, in_memory, multiplied, 0.0, case.host_layers)


def _cached(reader: AttentionReader, context: float) -> float:
    tokens = min(context, reader.most_tokens or context)
    return reader.layers * (tokens * reader.token_bytes + context * reader.extra_token_bytes)


def _readings(reader: AttentionReader) -> int:
    return -(-reader.heads // HOST_HEADS) if reader.latent else 1


def _processor(case: Layered, weights: float, multiplied: float, cached: float, layers: int) -> Iterable[Amount]:
    """The channels bring a weight once for all tokens of a step, the cores multiply it for each."""
    efficiency, share = "host_measured_efficiency" if case.host.measured else "host_efficiency", case.host.share
    yield Amount("memory", efficiency, (weights + cached) / case.host.bandwidth / share)
    yield Amount("memory", "host_alone_gb_s" if case.silicon is None else "host_gb_s", multiplied / share)
    yield Amount("memory", "host_cache_gb_s", cached / share)
    yield Amount("memory", "host_layer_us", layers / share)


def layered_prompt(
    case: Layered, kernels: Kernels, tokens: int, ubatch: int, depth: float = 0.0
) -> Iterable[Amount] | None:
    """Behind `depth` tokens that are in the cache. None where the processor reads it: how fast is not known."""
    if case.silicon is None or (case.host.slot is None and case.host_layers):
        return None
    work = case.work
    if case.host_layers and (work.for_processors or not _uploads(work, kernels, min(tokens, ubatch))):
        return None
    away = case.host_layers / case.expert_layers if case.expert_layers else 0.0
    in_memory = work.experts * work.expert_bytes * away
    turns = max(1, -(-tokens // ubatch))
    flops = case.silicon.bf16_flops
    # Every ubatch reads the weights once: all that are always used, and the experts that its tokens wake.
    woken = distinct_experts(work.experts, work.active, min(tokens, ubatch), 1.0) * work.expert_bytes * (1 - away)
    filled = work.expert_flops * _filling(work, kernels, min(tokens, ubatch))
    pair = work.attention_flops + (work.latent_flops if kernels.latent_prompts else 0.0)
    amounts = [
        Amount("layers", "ubatch_layer_us", turns * work.layers),
        Amount("weights", "weight_efficiency", turns * (work.always_bytes + woken) / case.silicon.bandwidth),
        Amount("compute", "compute_efficiency", tokens * (work.flops_per_token + filled) / flops),
        Amount("attention", "attention_efficiency", tokens * (depth + tokens / 2) * pair / flops),
    ]
    if in_memory and case.host.slot:
        amounts.append(Amount("upload", "upload_efficiency", turns * in_memory / case.host.slot))
    return amounts


def _filling(work: Work, kernels: Kernels, tokens: int) -> float:
    """Rows that only fill tiles, over those of tokens: as routers ask, an expert's rows are exponentially spread."""
    if not kernels.expert_tile or not work.experts:
        return 0.0
    tiles = kernels.expert_tile / (tokens * work.active / work.experts)
    return tiles / -math.expm1(-tiles) - 1


def _uploads(work: Work, kernels: Kernels, tokens: int) -> bool:
    if kernels.upload_from_rows is not None and work.active:
        return tokens >= kernels.upload_from_rows * work.experts / work.active
    return kernels.upload_from_tokens is not None and tokens >= kernels.upload_from_tokens
