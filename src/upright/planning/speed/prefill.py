"""The amounts of work of prefill, for ranks that divide every layer.

Over PCIe most of it is all-reduce: a chunk of 8,192 tokens sends 117 MB twice in every layer. Sparse attention is not
flat: its indexer scores every token before, on every rank.
"""

from __future__ import annotations

from collections.abc import Iterable

from upright.planning.speed.decode import Amount
from upright.planning.speed.work import BF16, GpuFigures, Work

CHUNK_TOKENS = 8192
SOCKET_RANKS = 4


def prefill_amounts(
    work: Work, silicon: GpuFigures, tokens: int, chunk: int = CHUNK_TOKENS, depth: float = 0.0
) -> Iterable[Amount]:
    """Behind `depth` tokens that are in the cache."""
    chunks = max(1, -(-tokens // chunk))
    throughput, pairs = work.tensor * silicon.bf16_flops, tokens * (depth + tokens / 2)
    yield Amount("layers", "ubatch_layer_us", chunks * work.layers)
    yield Amount("compute", "compute_efficiency", tokens * work.flops_per_token / throughput)
    yield Amount("attention", "attention_efficiency", pairs * work.attention_flops / throughput)
    if work.indexed_layers:
        yield Amount("attention", "sparse_efficiency", tokens * work.sparse_flops / throughput)
        yield Amount("indexer", "index_efficiency", pairs * work.index_flops / silicon.bf16_flops)
        if work.sharing > 1:  # queries and outputs go round as in a decode step
            yield Amount("exchange", "prompt_gb_s", tokens * work.layers * (work.sharing - 1) * work.exchanged_bytes)
    if work.tensor > 1:
        sent = 2 * (work.tensor - 1) / work.tensor * tokens * work.hidden * BF16
        bandwidth = "prompt_gb_s" if work.tensor > SOCKET_RANKS else "prompt_socket_gb_s"
        yield Amount("all-reduce", bandwidth, (2 * work.layers + 1) * sent)


def prefill_interference(prompt: Iterable[Amount], batch: int, answer_steps: float) -> Iterable[Amount]:
    """While it is answered, each request waits once for the prompt of every other one: that much a step."""
    share = (batch - 1) / answer_steps
    return (Amount("prompts", amount.constant, share * amount.amount) for amount in prompt)
