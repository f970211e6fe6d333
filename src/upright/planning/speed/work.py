"""What one rank has to read, compute and send for a token, by model, parallelism and cache type.

Nothing here is fitted: counts and bytes follow from the shape. How long they take is for the constants to say.
"""

from __future__ import annotations

import math
from functools import cache
from typing import NamedTuple, TypeGuard

from upright.facts import catalog
from upright.facts.records.model import (
    Architecture,
    CompressedAttention,
    GqaAttention,
    Group,
    LinearAttention,
    MlaAttention,
    Model,
    SharedAttention,
)
from upright.facts.records.plan import Parallel
from upright.planning.memory.kvcache import VALUE_BYTES, cache_shape, rank_share
from upright.planning.memory.weights import step_bytes, tied

BF16 = 2
INDEX_HEADS = 32
"""Heads of an indexer (GLM-5); a constant of the fit takes up another number."""


class GpuFigures(NamedTuple):
    """The figures of a GPU that speed hangs on."""

    bandwidth: float
    """Bytes a second of its memory."""
    multiprocessors: int
    bf16_flops: float
    """Dense tensor throughput."""


class GpuPart(NamedTuple):
    """One of several GPUs that a step goes through."""

    name: str
    share: float
    """Of all bytes that a step reads on GPUs, those that lie here."""
    figures: GpuFigures | None


class AttentionReader(NamedTuple):
    """Attention layers of one kind, as one rank runs them."""

    layers: int
    token_bytes: float
    """Cache of a token and layer that this rank reads, whoever shares it."""
    heads: int
    """Query heads of this rank."""
    latent: bool
    """One vector for all heads: a kernel reads it once for each tile of heads."""
    most_tokens: int | None = None
    """Tokens beyond which nothing more is read: a window, or what an indexer lets through."""
    extra_token_bytes: float = 0.0
    """Bytes a token and layer that are always read, such as an indexer's keys."""


class Work(NamedTuple):
    """One rank's part of a model."""

    layers: int
    hidden: int
    always_bytes: float
    expert_bytes: float
    experts: int
    active: int
    readers: tuple[AttentionReader, ...]
    tensor: int
    sharing: int
    """Decode context parallel (DCP): ranks over which one copy of the KV cache is sharded."""
    exchanged_bytes: int
    """Queries and outputs of a token and layer that a rank sends to each other rank of its DCP group."""
    flops_per_token: float
    """Multiplications and additions a token, on all ranks together, cache aside."""
    attention_flops: float
    """The same for each pair of a token and a token before it."""
    head_bytes: float
    """The output matrix, which each guess of a draft reads too."""
    sparse_flops: float = 0.0
    """Of sparse attention: the work of one token of a prompt, on all ranks together."""
    index_flops: float = 0.0
    """Of its indexer: the work for each pair of a token and a token before it, on every rank alike."""
    expert_layers: int = 0
    """Layers that have routed experts."""
    fp4_experts: bool = False
    """Whether the routed experts are NVFP4 with activations quantised to match."""
    indexed_layers: int = 0
    """Layers whose attention an indexer makes sparse."""
    state_bytes: float = 0.0
    """Recurrent state of one sequence on this rank: every step reads and writes it."""
    latent_layers: int = 0
    """Layers with latent attention (MLA)."""
    recurrent_layers: int = 0
    """Layers with a recurrent state instead of a cache."""
    selected_bytes: int = 0
    """Of an indexer under DCP: ids and scores of a token's top-k, found in each rank's shard and sent round."""
    whole_experts: bool = False
    """Whether each expert lies on one rank: the busiest rank decides how long they take."""
    expert_flops: float = 0.0
    """Of `flops_per_token`, those of the routed experts that answer it."""
    latent_flops: float = 0.0
    """What each pair takes beyond `attention_flops` where latent attention stays in the compressed space."""
    for_processors: bool = False
    """Whether routed experts are stored in a type that no GPU multiplies by, such as rows interleaved (`Q4_K_R4`)."""


def rank_work(model: Model, parallel: Parallel, dtype: str, *, sparse: bool = True) -> Work:
    """Without a `sparse` kernel a model with an indexer attends to everything, and its indexer does not run."""
    shape, tensor = model.architecture if sparse else _dense(model.architecture), parallel.tensor
    experts, read, head = shape.experts, step_bytes(model, tensor=tensor), _head(model)
    latent = next((kind for kind in shape.attention if isinstance(kind, MlaAttention)), None)
    exchanged = 0
    if latent is not None:
        exchanged = BF16 * latent.heads // tensor * (2 * latent.kv_lora_rank + latent.rope_head_dim)
    elif (grouped := next((kind for kind in shape.attention if isinstance(kind, GqaAttention)), None)) is not None:
        exchanged = BF16 * grouped.heads // tensor * (grouped.key_head_dim + grouped.value_head_dim)
    return Work(
        layers=shape.layers,
        hidden=shape.hidden_size,
        always_bytes=read.always,
        expert_bytes=read.expert,
        experts=experts.count if experts else 0,
        active=experts.active if experts else 0,
        readers=_readers(shape, dtype, tensor),
        tensor=tensor,
        sharing=parallel.decode_context,
        exchanged_bytes=exchanged,
        flops_per_token=2.0 * active_parameters(model),
        attention_flops=float(sum(_pair_flops(kind) for kind in shape.attention)),
        head_bytes=sum(line.bytes for line in model.weights if line.group == head) / tensor,
        sparse_flops=float(sum(_sparse_flops(kind) for kind in shape.attention)),
        index_flops=float(sum(_index_flops(kind) for kind in shape.attention)),
        expert_layers=len({line.layer for line in model.weights if line.group == "routed_experts"}),
        fp4_experts=_fp4_experts(model),
        indexed_layers=sum(kind.layers for kind in shape.attention if _indexed(kind)),
        state_bytes=sum(kind.layers * (kind.state_bytes or 0) for kind in shape.attention if _recurrent(kind)) / tensor,
        latent_layers=sum(kind.layers for kind in shape.attention if isinstance(kind, MlaAttention)),
        recurrent_layers=sum(kind.layers for kind in shape.attention if _recurrent(kind)),
        selected_bytes=max((_selected_bytes(kind) for kind in shape.attention), default=0),
        whole_experts=parallel.expert,
        expert_flops=2.0 * _active_expert_parameters(model),
        latent_flops=float(
            sum(_compressed_flops(kind) - _pair_flops(kind) for kind in shape.attention if _latent(kind))
        ),
        for_processors=_for_processors(model),
    )


def _head(model: Model) -> Group:
    return "embedding" if tied(model) else "output"


def _dense(shape: Architecture) -> Architecture:
    unindexed = {"indexer_head_dim": None, "indexer_top_k": None}
    kinds = tuple(kind.model_copy(update=unindexed) if _indexed(kind) else kind for kind in shape.attention)
    return shape.model_copy(update={"attention": kinds})


def _for_processors(model: Model) -> bool:
    """By the tensors' types, or of a file that is known by name by the type that it is called after."""
    if model.format != "gguf":
        return False
    stored = {line.dtype for line in model.weights if line.group == "routed_experts"}
    named = {*stored, model.source.rpartition(":")[2].upper()}
    return any(row.name in named for row in catalog.ggml_types() if not row.gpu_kernels)


def _fp4_experts(model: Model) -> bool:
    """NVFP4 as ModelOpt writes it: four bits and a scale for each sixteen weights."""
    types = " ".join(line.dtype for line in model.weights if line.group == "routed_experts")
    return "nvfp4" in f"{types} {model.quantisation or ''}".lower()


def _indexed(kind: object) -> bool:
    return isinstance(kind, MlaAttention) and kind.indexer_head_dim is not None


def _selected_bytes(kind: object) -> int:
    """An id and a score, four bytes each."""
    return 8 * (kind.indexer_top_k or 2048) if isinstance(kind, MlaAttention) and _indexed(kind) else 0


def _recurrent(kind: object) -> TypeGuard[LinearAttention]:
    return isinstance(kind, LinearAttention)


def active_parameters(model: Model) -> int:
    """Weights that a token meets: of the experts only those that answer, of the embedding none but as output matrix."""
    experts, aside = model.architecture.experts, {"embedding", "vision", "draft"} - {_head(model)}
    aside |= {"routed_experts"} if experts else set()
    return _active_expert_parameters(model) + sum(
        [line.parameters for line in model.weights if line.group not in aside]
    )


def _active_expert_parameters(model: Model) -> int:
    if (experts := model.architecture.experts) is None:
        return 0
    stored = [line.parameters for line in model.weights if line.group == "routed_experts"]
    return sum([parameters * experts.active // experts.count for parameters in stored])


def distinct_experts(experts: int, active: int, tokens: float, skew: float) -> float:
    """Experts of a layer that a step with so many tokens wakes.

    Routers have favourites: the n-th of them is asked as often as 1 / n ** skew says, by Zipf's law.
    """
    if not experts:
        return 0.0
    # A fit asks for the same again and again.
    return _distinct_experts(experts, active, round(float(tokens), 2), round(skew, 3))


@cache
def _distinct_experts(experts: int, active: int, tokens: float, skew: float) -> float:
    return float(sum(1 - (1 - share) ** tokens for share in _asked(experts, active, skew)))


@cache
def _asked(experts: int, active: int, skew: float) -> tuple[float, ...]:
    """How often a token visits each expert: at most once, and `active` of them in all."""
    weights = [(place + 1 + active) ** -skew for place in range(experts)]
    sure = 0
    while sure < active:
        factor = (active - sure) / sum(weights[sure:])
        if weights[sure] * factor <= 1:
            return (*([1.0] * sure), *(weight * factor for weight in weights[sure:]))
        sure += 1
    return (*([1.0] * active), *([0.0] * (experts - active)))


def busiest_rank_factor(woken: float, ranks: int) -> float:
    """How many times an even share of the woken experts the busiest rank reads, if chance places them.

    Ranks are taken for independent (Poisson): 8 experts on 8 ranks give 2.6, 200 give 1.4.
    """
    if woken <= 0 or ranks < 2:
        return 1.0
    mean = woken / ranks
    term = below = math.exp(-mean)
    expected, count = 0.0, 0
    while (left := 1 - below**ranks) > 1e-6:
        expected += left
        count += 1
        term *= mean / count
        below = min(1.0, below + term)
    return expected / mean


def _readers(shape: Architecture, dtype: str, tensor: int) -> tuple[AttentionReader, ...]:
    readers = []
    for kind in shape.attention:
        if isinstance(kind, LinearAttention | CompressedAttention | SharedAttention):
            continue  # a state of fixed size, or a cache that headers do not tell: small beside the weights
        alone = shape.model_copy(update={"attention": (kind,)})
        # Of the packed layout (fp8) only tokens that the indexer lets through are read whole: keys are read of all.
        packed = isinstance(kind, MlaAttention) and kind.sparse and dtype == "fp8"
        cache = cache_shape(alone, "fp8_e4m3" if packed else dtype)
        held = rank_share(cache, tensor, 1)
        heads = max(1, kind.heads // tensor)
        if isinstance(kind, MlaAttention):
            element_bytes = float(VALUE_BYTES.get(dtype, 1))
            whole = (kind.kv_lora_rank + kind.rope_head_dim) * element_bytes
            if not kind.sparse:
                readers.append(AttentionReader(kind.layers, whole, heads, True))
            else:
                keys = float(cache.bytes_per_token) / kind.layers - whole
                readers.append(
                    AttentionReader(kind.layers, whole, heads, True, kind.indexer_top_k or 2048, max(0.0, keys))
                )
        else:
            per_token = cache.bytes_per_token + sum(window.bytes_per_token for window in cache.windows)
            readers.append(
                AttentionReader(kind.layers, float(per_token * held) / kind.layers, heads, False, kind.window_tokens)
            )
    return tuple(readers)


def _latent(kind: object) -> bool:
    return isinstance(kind, MlaAttention) and not kind.sparse


def _compressed_flops(kind: object) -> int:
    """Of scores and their sums for each pair, in the compressed space."""
    if not isinstance(kind, MlaAttention):
        return 0
    return 2 * kind.layers * kind.heads * (2 * kind.kv_lora_rank + kind.rope_head_dim)


def _sparse_flops(kind: object) -> int:
    """Of scores and their sums over the tokens that an indexer lets through, in the compressed space."""
    if not isinstance(kind, MlaAttention) or kind.indexer_head_dim is None:
        return 0
    return _compressed_flops(kind) * (kind.indexer_top_k or 2048)


def _index_flops(kind: object) -> int:
    if not isinstance(kind, MlaAttention) or kind.indexer_head_dim is None:
        return 0
    return 2 * kind.layers * INDEX_HEADS * kind.indexer_head_dim


def _pair_flops(kind: object) -> int:
    """Of scores and their sums over all layers; prompts are read with the cache expanded."""
    if isinstance(kind, MlaAttention):
        width = (kind.nope_head_dim or 0) + kind.rope_head_dim + (kind.value_head_dim or 0)
        return 0 if kind.sparse else 2 * kind.layers * kind.heads * width
    if isinstance(kind, GqaAttention) and kind.window_tokens is None:
        return 2 * kind.layers * kind.heads * (kind.key_head_dim + kind.value_head_dim)
    return 0
