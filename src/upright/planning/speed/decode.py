"""The amounts of work of one decode step, for ranks that divide every layer.

Seconds are a sum of amounts times coefficients, one coefficient a constant: what `fitting` solves for is what is used.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

from upright.facts.catalog.rows.speed import Constants, Kernels
from upright.planning.speed.work import BF16, AttentionReader, GpuFigures, Work, busiest_rank_factor, distinct_experts

EXCHANGES = 3
"""Of DCP: gather queries, gather the logs of sums, scatter the outputs."""
# A step is a sum of what is read and sent. In the runs that were fitted, multiplying takes up to an eighth of it; where
# it would take twice that, no run tells how they add up.
COMPUTE_SHARE = 0.25


class Amount(NamedTuple):
    """So much of what one constant prices."""

    term: str
    constant: str
    amount: float


class DecodeStep(NamedTuple):
    """One decode step: its terms in seconds, in the order that a page shows them."""

    terms: dict[str, float]

    @property
    def seconds(self) -> float:
        return sum(self.terms.values())


def step_amounts(
    work: Work, silicon: GpuFigures, kernels: Kernels, *, batch: int, context: float, guesses: int, skew: float
) -> Iterable[Amount]:
    """One step of all requests. With a draft, its guesses are made and verified, each beside one sure token."""
    rows = batch * (guesses + 1)
    yield Amount("layers", "layer_us", work.layers)
    # Two in every layer, behind attention and behind the experts, and one behind the embedding.
    yield from _all_reduce(work, kernels, rows, operations=2 * work.layers + 1)
    if work.sharing > 1:
        rounds = 0.5 + (work.sharing - 1) / work.sharing  # a launch, and a ring whose share grows
        yield Amount("exchange", "exchange_us", EXCHANGES * work.layers * rounds)
        wire = work.layers * work.exchanged_bytes + work.indexed_layers * work.selected_bytes
        yield Amount("exchange", "collective_gb_s", (work.sharing - 1) * rows * wire)
    woken = distinct_experts(work.experts, work.active, rows, skew)
    woken *= busiest_rank_factor(woken, work.tensor) if work.whole_experts else 1.0
    experts = "fp4_efficiency" if work.fp4_experts else "weight_efficiency"
    yield Amount("weights", "weight_efficiency", work.always_bytes / silicon.bandwidth)
    yield Amount("weights", experts, woken * work.expert_bytes / silicon.bandwidth)
    if work.fp4_experts:
        yield Amount("layers", "fp4_layer_us", work.expert_layers)
    if work.indexed_layers:
        yield Amount("indexer", "indexer_us", work.indexed_layers)
    if work.state_bytes:
        yield Amount("state", "weight_efficiency", 2 * batch * work.state_bytes / silicon.bandwidth)
    for reader in work.readers:
        efficiency = "cache_efficiency" if reader.latent else "grouped_efficiency"
        together = kernels.verifies_together or not reader.latent
        readings = batch if together else rows
        yield Amount("cache", efficiency, _cache_seconds(reader, work, silicon, kernels, readings, context))
    if guesses:  # each guess is one layer and the output matrix
        yield Amount("draft", "layer_us", guesses)
        yield Amount("draft", "weight_efficiency", guesses * work.head_bytes / silicon.bandwidth)
        yield from _all_reduce(work, kernels, batch, operations=2 * guesses)


def decode_step(amounts: Iterable[Amount], constants: Constants) -> DecodeStep:
    seconds_by_term: dict[str, float] = {}
    for amount in amounts:
        seconds_by_term[amount.term] = seconds_by_term.get(amount.term, 0.0) + amount.amount * coefficient(
            constants, amount.constant
        )
    return DecodeStep(seconds_by_term)


def coefficient(constants: Constants, name: str) -> float:
    """What one unit of an amount costs: seconds a microsecond, a byte, or a second at full efficiency."""
    constant = float(getattr(constants, name))
    if name == "ubatch_layer_us" and not constant:
        constant = constants.layer_us
    if name.endswith("_us"):
        return constant * 1e-6
    return 1e-9 / constant if name.endswith("_gb_s") else 1 / constant


def _all_reduce(work: Work, kernels: Kernels, rows: int, *, operations: int) -> Iterable[Amount]:
    if work.tensor < 2:
        return
    sent, others = rows * work.hidden * BF16, work.tensor - 1
    if rows <= kernels.one_shot_rows:
        yield Amount("all-reduce", "one_shot_us", operations)
        yield Amount("all-reduce", "one_shot_gb_s", operations * others * sent)
    else:
        yield Amount("all-reduce", "hop_us", operations * 2 * others)
        yield Amount("all-reduce", "collective_gb_s", operations * 2 * others / work.tensor * sent)


def _cache_seconds(
    reader: AttentionReader, work: Work, silicon: GpuFigures, kernels: Kernels, rows: int, context: float
) -> float:
    """At full efficiency; `rows` is how often a cache is read: once a request, or once for each of its guesses."""
    tokens = min(context, reader.most_tokens or context)
    read = (tokens * reader.token_bytes + context * reader.extra_token_bytes) / work.sharing
    tiles = 1
    if reader.latent:
        heads = reader.heads * work.sharing
        tile = kernels.head_tiles.get(heads, kernels.head_tile)
        tiles = math.ceil(heads / tile)
    filled = float(rows * tiles)
    if reader.latent and kernels.cache_splits:
        # Blocks run in waves, one block a multiprocessor: a wave that is half empty takes as long as a full one.
        blocks = rows * tiles * kernels.cache_splits / silicon.multiprocessors
        filled = math.ceil(blocks) / (kernels.cache_splits / silicon.multiprocessors)
    return reader.layers * filled * read / silicon.bandwidth


def compute_bound(work: Work, silicon: GpuFigures, constants: Constants, rows: int, seconds: float) -> bool:
    """Whether so many rows a step are more to multiply than constants of reading and sending know of."""
    throughput = work.tensor * silicon.bf16_flops * constants.compute_efficiency
    return rows * work.flops_per_token / throughput > COMPUTE_SHARE * seconds
