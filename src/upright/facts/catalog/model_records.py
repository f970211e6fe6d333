"""ModelRow + Artifact -> Model: tensors that nobody read, counted from the shape and the published size.

What is left between the published size and the shape is the vision tower if there is one. Without a size or bits a
weight there is no record: sizes are never guessed.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from upright.base.units import MIB
from upright.facts.catalog import find_model
from upright.facts.catalog.rows.model import Artifact, ModelRow, ModelShape
from upright.facts.records.model import (
    Architecture,
    Attention,
    Experts,
    GqaAttention,
    Group,
    LinearAttention,
    MlaAttention,
    Model,
    WeightLine,
)

_GGUF_OTHER_BITS = 8.5  # Q8_0 outside the experts, as the large GGUF quants keep it
_FP8_BITS, _BF16_BITS = 8.0, 16.0
_EXPERT_MATRICES = 3


def records(row: ModelRow) -> tuple[Model, ...]:
    """A record for every artifact whose size is known, the native one first."""
    models = (record(row, artifact) for artifact in row.artifacts)
    return tuple(model for model in models if model is not None)


def record(row: ModelRow, artifact: Artifact) -> Model | None:
    """None if the row does not tell the artifact's size."""
    if row.shape is None:
        return None
    weights, shape = _weights(row, row.shape, artifact), row.shape
    if weights is None:
        return None
    if artifact.context_limit_tokens is not None:
        shape = shape.model_copy(update={"context_limit_tokens": artifact.context_limit_tokens})
    return Model(
        name=artifact_name(row, artifact),
        source=_source(artifact),
        format=artifact.format,
        basis="catalog",
        architecture=_architecture(row, shape),
        files=(),
        weights=weights,
        quantisation=artifact.scheme,
        ik_only=only_the_fork_loads(artifact),
    )


def architecture(row: ModelRow) -> Architecture | None:
    """What the row's tensors form; None if only headline figures are known."""
    return None if row.shape is None else _architecture(row, row.shape)


def only_the_fork_loads(artifact: Artifact) -> bool:
    """Whether its tensors have types that mainline refuses."""
    return artifact.engines == ("ik_llama.cpp",)


def row_of(model: Model) -> ModelRow | None:
    """What the catalogue knows of this artifact: the model's row, with what the artifact has of its own."""
    row = _row(model.source) or _row(model.name)
    return row.of(model.source if _row(model.source) else model.name) if row else None


@cache
def _row(name: str) -> ModelRow | None:
    return find_model(name)


def attention_parameters(kind: Attention, hidden: int) -> int:
    """Weights of one layer's attention; 0 for recurrent layers, whose shape no configuration tells alike."""
    if isinstance(kind, MlaAttention):
        nope, value_dim = kind.nope_head_dim or 0, kind.value_head_dim or 0
        queries = kind.heads * (nope + kind.rope_head_dim)
        into_queries = kind.q_lora_rank * (hidden + queries) if kind.q_lora_rank else hidden * queries
        latent = hidden * (kind.kv_lora_rank + kind.rope_head_dim) + kind.kv_lora_rank * kind.heads * (nope + value_dim)
        return into_queries + latent + kind.heads * value_dim * hidden
    if isinstance(kind, GqaAttention):
        return hidden * (kind.heads + kind.kv_heads) * (kind.key_head_dim + kind.value_head_dim)
    return 0


def artifact_name(row: ModelRow, artifact: Artifact) -> str:
    """`Kimi-K2.6`, `Kimi-K2.6-GGUF:IQ3_K`; with its owner where two are called alike."""
    alike = [other for other in row.artifacts if _short_name(other) == _short_name(artifact)]
    return _short_name(artifact) if len(alike) <= 1 else _source(artifact)


def _short_name(artifact: Artifact) -> str:
    return _source(artifact).partition("/")[2]


def _source(artifact: Artifact) -> str:
    return f"{artifact.repository}:{artifact.quant}" if artifact.quant else artifact.repository


class _Count(NamedTuple):
    group: Group
    layer: int | None
    parameters: int


def _architecture(row: ModelRow, shape: ModelShape) -> Architecture:
    experts = shape.experts
    if experts is not None:
        experts = Experts.model_validate({**experts.model_dump(), "intermediate_size": shape.expert_ffn_size})
    return Architecture(
        name=shape.architecture,
        family=None,
        layers=shape.layers,
        hidden_size=shape.hidden_size,
        vocabulary_size=shape.vocabulary_size,
        context_limit_tokens=shape.context_limit_tokens,
        attention=shape.attention,
        experts=experts,
        intermediate_size=shape.dense_ffn_size,
        draft_layers=shape.mtp_layers,
        vision=row.vision is not None,
    )


def _weights(row: ModelRow, shape: ModelShape, artifact: Artifact) -> tuple[WeightLine, ...] | None:
    counts = [count for count in _counts(row, shape) if count.parameters]
    routed = sum(count.parameters for count in counts if count.group == "routed_experts")
    others = sum(count.parameters for count in counts) - routed
    size = artifact.size_bytes.value
    other_bits = _value(artifact.other_bits) or _usual_other_bits(artifact)
    expert_bits = _value(artifact.expert_bits)
    if expert_bits is None:
        if size is None or not routed:
            return None
        expert_bits = (size * 8 - others * other_bits) / routed
    if expert_bits <= 0:
        return None
    lines = [
        _line(count, expert_bits if count.group == "routed_experts" else other_bits, artifact.scheme)
        for count in counts
    ]
    left = int(size or 0) - sum(line.bytes for line in lines)
    if row.vision is not None and artifact.format == "safetensors" and left > MIB:
        lines.append(
            WeightLine(
                group="vision", layer=None, dtype="BF16", tensors=0, parameters=int(left * 8 / _BF16_BITS), bytes=left
            )
        )
    return tuple(lines)


def _usual_other_bits(artifact: Artifact) -> float:
    if artifact.format == "gguf":
        return _GGUF_OTHER_BITS
    return _FP8_BITS if "FP8" in artifact.scheme.upper().split() else _BF16_BITS


def _line(count: _Count, bits: float, scheme: str) -> WeightLine:
    return WeightLine(
        group=count.group,
        layer=count.layer,
        dtype=f"{bits:.3g} bits",
        tensors=0,
        parameters=count.parameters,
        bytes=round(count.parameters * bits / 8),
    )


def _counts(row: ModelRow, shape: ModelShape) -> Iterator[_Count]:
    hidden = shape.hidden_size
    yield _Count("embedding", None, shape.vocabulary_size * hidden)
    yield _Count("output", None, shape.vocabulary_size * hidden)
    yield _Count("norm", None, hidden)
    kinds = [kind for kind in shape.attention for _ in range(kind.layers)]
    linear = _linear_layer_parameters(row, shape)
    experts = shape.experts
    for layer, kind in enumerate(kinds):
        yield _Count("attention", layer, attention_parameters(kind, hidden) or linear)
        yield _Count("norm", layer, 2 * hidden + _latent_norms(kind))
        if experts is None or layer < experts.first_moe_layer:
            yield _Count("dense_ffn", layer, _EXPERT_MATRICES * hidden * (shape.dense_ffn_size or 0))
            continue
        expert = _EXPERT_MATRICES * hidden * (shape.expert_ffn_size or 0)
        yield _Count("router", layer, experts.count * (hidden + 1))
        yield _Count("routed_experts", layer, experts.count * expert)
        yield _Count("shared_experts", layer, experts.shared * expert)


def _latent_norms(kind: Attention) -> int:
    return (kind.q_lora_rank or 0) + kind.kv_lora_rank if isinstance(kind, MlaAttention) else 0


def _linear_layer_parameters(row: ModelRow, shape: ModelShape) -> int:
    """What the published total leaves for each recurrent layer; the shape does not tell."""
    layers = sum(kind.layers for kind in shape.attention if isinstance(kind, LinearAttention))
    if not layers or row.parameters.value is None:
        return 0
    bare = shape.model_copy(
        update={"attention": tuple(kind for kind in shape.attention if not isinstance(kind, LinearAttention))}
    )
    hidden, experts = shape.hidden_size, shape.experts
    known = sum(count.parameters for count in _counts(row, bare))
    if experts is not None:
        expert = _EXPERT_MATRICES * hidden * (shape.expert_ffn_size or 0)
        known += layers * (experts.count * (hidden + 1 + expert) + experts.shared * expert)
    return max(0, int(row.parameters.value) - known) // layers


def _value(fact: object) -> float | None:
    return getattr(fact, "value", None)
