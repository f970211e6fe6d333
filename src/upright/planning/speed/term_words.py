"""What is done in each term of a step, in words with figures."""

from __future__ import annotations

from upright.base.units import format_size, format_tokens
from upright.facts.catalog.rows.speed import SpeedRow
from upright.facts.records.plan import Plan
from upright.planning.speed.layered import Layered
from upright.planning.speed.prefill import SOCKET_RANKS
from upright.planning.speed.work import BF16, Work, distinct_experts

NO_LIMIT = 1e6
"""GB/s from which a constant is a default that says nothing."""


def term_words(
    which: str, term: str, work: Work, layered: Layered | None, row: SpeedRow, plan: Plan, context: int
) -> str:
    constants, batch = row.constants, plan.goal.users
    guesses = 3 if plan.goal.draft else 0
    rows = batch * (guesses + 1)
    if which == "prompt":
        return _prompt_words(term, work, layered, row, context)
    if term == "layers":
        return f"{work.layers} layers, {constants.layer_us:.0f} us each: launches, norms, router{_more(work, row)}"
    if term == "indexer":
        return f"the indexer of {work.indexed_layers} layers, {constants.indexer_us:.0f} us each: scores and top-k"
    if term == "state":
        return f"recurrent state of {batch} sequences, {format_size(work.state_bytes)} each, read and written"
    if term == "all-reduce":
        how = "one shot over PCIe" if rows <= row.kernels.one_shot_rows else "NCCL"
        sent = format_size(rows * work.hidden * BF16)
        return f"{2 * work.layers + 1} all-reduces of {sent} over {work.tensor} GPUs, {how}"
    if term == "exchange":
        return f"DCP {work.sharing}: three exchanges in each of {work.layers} layers"
    if term == "weights":
        woken = distinct_experts(work.experts, work.active, rows, constants.expert_skew)
        on = 1.0
        if layered is not None and layered.expert_layers:
            on = 1 - layered.host_layers / layered.expert_layers
        read = work.always_bytes + on * woken * work.expert_bytes
        experts = f", {woken:.0f} of {work.experts} active experts" if work.experts else ""
        efficiency = f"{constants.weight_efficiency:.0%} of the memory's bandwidth"
        return f"{format_size(read)} of weights at {efficiency}{experts}{_in_turn(layered)}"
    if term == "cache":
        latent = any(reader.latent for reader in work.readers)
        share = constants.cache_efficiency if latent else constants.grouped_efficiency
        return f"{batch} x {format_tokens(context)} tokens of cache at {share:.0%} of the bandwidth"
    if term == "prompts":
        return (
            f"prompts of {batch - 1} others are read meanwhile, for answers of "
            f"{format_tokens(row.answer_tokens or 0)} tokens"
        )
    if term == "memory":
        return _memory_words(work, layered, row, rows)
    return f"{guesses} guesses: one layer and the output matrix each"


def _in_turn(layered: Layered | None) -> str:
    """How much of it each of several kinds of GPU reads: what lies on a slow one decides."""
    if layered is None or layered.silicon is None or len(layered.parts) < 2:
        return ""
    shares = ", ".join(
        f"{part.share:.0%} by {part.name.removeprefix('NVIDIA ').removeprefix('GeForce ')} at "
        f"{format_size(part.figures.bandwidth)}/s"
        for part in layered.parts
        if part.figures is not None
    )
    return f"; one GPU after the other, {shares}: together as one of {format_size(layered.silicon.bandwidth)}/s"


def _more(work: Work, row: SpeedRow) -> str:
    """What some of the layers take beyond the others."""
    constants, more = row.constants, ""
    if work.fp4_experts and constants.fp4_layer_us:
        more += f", {constants.fp4_layer_us:.0f} us more with NVFP4 experts"
    if work.expert_layers and constants.expert_layer_us:
        more += f", {constants.expert_layer_us:.0f} us more with experts"
    if work.expert_layers and constants.active_expert_us:
        more += f", {constants.active_expert_us * work.active:.0f} us more with {work.active} experts"
    if work.latent_layers and constants.latent_layer_us:
        more += f", {constants.latent_layer_us:.0f} us more with latent attention"
    if work.recurrent_layers and constants.recurrent_layer_us:
        more += f", {constants.recurrent_layer_us:.0f} us more with a recurrent state"
    return more


def _memory_words(work: Work, layered: Layered | None, row: SpeedRow, rows: int) -> str:
    assert layered is not None
    woken = distinct_experts(work.experts, work.active, rows, row.constants.expert_skew)
    read = woken * work.expert_bytes * layered.host_layers / max(1, layered.expert_layers)
    what = f"experts of {layered.host_layers} layers"
    if layered.silicon is None:
        read, what = read + work.always_bytes, "everything"
    constants = row.constants
    share = constants.host_measured_efficiency if layered.host.measured else constants.host_efficiency
    kind = "measured" if layered.host.measured else "theoretical"
    cores = constants.host_alone_gb_s if layered.silicon is None else constants.host_gb_s
    brought = f"brought at {share:.0%} of {kind} {format_size(layered.host.bandwidth)}/s"
    multiplied = f", multiplied at {cores:,.0f} GB/s" if cores < NO_LIMIT else ""
    handed = f", {constants.host_layer_us:.0f} us a layer to hand over" if constants.host_layer_us else ""
    bound = f"; {layered.host.share:.2f} of that, bound to no socket" if layered.host.share < 1 else ""
    return f"{what}, {format_size(read)}, by the processor: {brought}{multiplied}{handed}{bound}"


def _prompt_words(term: str, work: Work, layered: Layered | None, row: SpeedRow, context: int) -> str:
    constants = row.constants
    attention = f"every token meets those before it, at {constants.attention_efficiency:.0%} of the throughput"
    if work.indexed_layers:
        attention = f"every token meets its top-k, at {constants.sparse_efficiency:.0%} of the throughput"
    bus = constants.prompt_gb_s if work.tensor > SOCKET_RANKS else constants.prompt_socket_gb_s
    descriptions = {
        "layers": f"{work.layers} layers for every chunk",
        "compute": f"{format_tokens(context)} tokens x {work.flops_per_token / 1e9:.0f} GFLOP at "
        f"{constants.compute_efficiency:.0%} of the dense bf16 throughput",
        "attention": attention,
        "indexer": f"the indexer scores every token before, at {constants.index_efficiency:.0%} of the throughput",
        "exchange": f"DCP {work.sharing}: queries and outputs go round",
        "all-reduce": f"{2 * work.layers + 1} long all-reduces a chunk at {bus:.0f} GB/s",
        "weights": "every ubatch reads the weights on the GPU once",
    }
    if term == "upload" and layered is not None:
        held = work.experts * work.expert_bytes * layered.host_layers / max(1, layered.expert_layers)
        return f"{format_size(held)} of experts copied over PCIe for every ubatch"
    return descriptions[term]
