"""Model + ranks -> bytes of weights on each rank: what is divided, what every rank keeps whole.

Dividing a checkpoint by the number of GPUs misses 3 GiB a GPU on Kimi K2: under tensor parallelism the projections
into the latent space, the router, the norms and the indexer are replicated.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Literal, NamedTuple

from upright.facts.catalog.model_records import attention_parameters
from upright.facts.records.model import (
    Architecture,
    CompressedAttention,
    GqaAttention,
    Group,
    MlaAttention,
    Model,
    WeightLine,
)

Vision = Literal["divided", "replicated", "left out"]
BF16 = 2
_OVERLAPPING = 4
"""The ratio at which DeepSeek V4's compressor keeps two groups."""
# Where an engine pads them, widths of experts are rounded up after loading (vllm/model_executor/layers/quantization/
# mxfp4.py): 60.8 GiB of gpt-oss-120b take 64.4 by Triton and 66.0 by Marlin; Kimi K3, 384 wide on each of 8 ranks,
# takes no more, 192 wide on each of 16 a fifth more.
_INSIDE, _BESIDE = 128, 256

# Where the engine's layers are column or row parallel, and where they are replicated: vllm/model_executor/models/
# deepseek_v2.py at 0.32.0 (gate and indexer are ReplicatedLinear), sglang/srt/models/deepseek_v2.py.
_WHOLE: frozenset[Group] = frozenset({"router", "norm", "indexer"})
# Names that nobody knows and shapes that tell nothing: divided or on every rank, both are counted.
_UNSURE: Group = "other"


class Padding(NamedTuple):
    """Bytes that experts grow by after loading: kernels take widths that are whole multiples."""

    bytes: int = 0
    """At most: some kernels take any width."""
    why: str = ""


class RankWeights(NamedTuple):
    """What one rank of one pipeline stage holds."""

    divided_bytes: int
    """Its share of what tensor parallelism divides."""
    replicated_bytes: int
    """What every rank keeps whole."""
    absorbed_bytes: int
    """Second copies of kv_b_proj that MLA backends make after loading."""
    layers: int
    """Transformer layers of its stage."""
    unsure_bytes: int = 0
    """Tensors of which it is not known whether they are divided: all of them."""
    table_bytes: int = 0
    """This rank's share of lookup tables, which an engine may keep in system RAM instead."""
    expert_bytes: int = 0
    """Routed experts among what is divided."""
    padding: Padding = Padding()
    """What widths that kernels do not take add to the experts."""

    @property
    def bytes(self) -> int:
        """The most that it can be."""
        return self.divided_bytes + self.replicated_bytes + self.unsure_bytes + self.table_bytes


class StepBytes(NamedTuple):
    """What one rank reads to decode a token."""

    always: int
    """Read by every step, however many tokens it decodes."""
    expert: int
    """One routed expert in every layer that has experts."""


def rank_weights(
    model: Model,
    *,
    tensor: int,
    pipeline: int = 1,
    data: int = 1,
    vision: Vision = "divided",
    draft: bool = False,
    whole_experts: bool = False,
    padded: bool = False,
    layer_counts: Sequence[int] = (),
) -> tuple[RankWeights, ...]:
    """One entry for each pipeline stage; all ranks of a stage hold the same number of bytes.

    Replicas of attention (`data`) hold all of it each, and divide the routed experts among them.
    """
    stages = stage_layers(model.architecture.layers, pipeline, layer_counts)
    return tuple(
        _stage(
            model, layers, tensor, data, first=index == 0, last=index == pipeline - 1, vision=vision, draft=draft
        )._replace(
            padding=_padding(model, layers, tensor, data, whole=whole_experts or data > 1) if padded else Padding()
        )
        for index, layers in enumerate(stages)
    )


def step_bytes(model: Model, *, tensor: int = 1) -> StepBytes:
    """Bytes of this rank's share that a step reads; of the embedding it reads a row, of the tower nothing.

    A model whose output matrix is its embedding reads all of that for its logits.
    """
    # As the shape has it: with this amount the constants of speed were fitted.
    share, always = replicated_share(model.architecture, tensor), Fraction(0)
    totals: dict[Group, int] = {}
    for line in model.weights:
        totals[line.group] = totals.get(line.group, 0) + line.bytes
    aside = {"embedding", "vision", "draft", "routed_experts", "tables"}
    for group in totals.keys() - (aside - {"embedding"} if tied(model) else aside):
        whole = _whole_share(group, share, "left out") or Fraction(0)
        always += totals[group] * (whole + (1 - whole) / tensor)
    experts, routed = model.architecture.experts, totals.get("routed_experts", 0)
    return StepBytes(int(always), routed // experts.count // tensor if experts else 0)


def tied(model: Model) -> bool:
    """Whether the embedding is the output matrix too."""
    return not any(line.group == "output" for line in model.weights)


def stage_layers(layers: int, stages: int, counts: Sequence[int] = ()) -> tuple[range, ...]:
    """Of so many layers each; without counts vLLM's split: even, what is left over goes to the stages before the last
    (vllm/distributed/utils.py).
    """
    counts = list(counts) or _even(layers, stages)
    starts = [sum(counts[:index]) for index in range(stages)]
    return tuple(range(start, start + count) for start, count in zip(starts, counts, strict=True))


def _even(layers: int, stages: int) -> list[int]:
    counts = [layers // stages] * stages
    for back in range(2, layers % stages + 2):
        counts[-back] += 1
    return counts


def replicated_share(architecture: Architecture, tensor: int, parameters: int = 0) -> Fraction:
    """The part of the attention weights that a rank holds, beyond 1/tensor of what is divided, as a share of all.

    `parameters` is how many these are; without, what the shape says of those that no recurrence has.
    """
    kinds, hidden = architecture.attention, architecture.hidden_size
    whole = sum((_whole_attention(kind, hidden, tensor) for kind in kinds), Fraction(0))
    total = parameters or sum(kind.layers * attention_parameters(kind, hidden) for kind in kinds)
    return min(Fraction(1), whole / total) if total else Fraction(0)


def _share(model: Model, tensor: int) -> Fraction:
    named = sum([line.parameters for line in model.weights if line.group == "attention"])
    return replicated_share(model.architecture, tensor, named)


def layer_bytes(model: Model, groups: Sequence[Group] | None = None) -> dict[int | None, int]:
    """Bytes by layer, None for what lies outside the layers."""
    bytes_by_layer: dict[int | None, int] = {}
    for line in model.weights:
        if groups is None or line.group in groups:
            bytes_by_layer[line.layer] = bytes_by_layer.get(line.layer, 0) + line.bytes
    return bytes_by_layer


def _stage(
    model: Model, layers: range, tensor: int, data: int, *, first: bool, last: bool, vision: Vision, draft: bool
) -> RankWeights:
    totals: dict[Group, int] = {}
    for line in model.weights:
        if _on_stage(line, layers, first=first, last=last, draft=draft):
            totals[line.group] = totals.get(line.group, 0) + line.bytes
    divided, replicated = Fraction(0), Fraction(0)
    share = _share(model, tensor)
    unsure, tables = totals.pop(_UNSURE, 0), totals.pop("tables", 0)
    for group, total in totals.items():
        whole = _whole_share(group, share, vision)
        if whole is not None:
            replicated += total * whole
            divided += total * (1 - whole) / (tensor * data if group == "routed_experts" else tensor)
    absorbed = sum(_absorbed(kind) for kind in model.architecture.attention)
    part = Fraction(len(layers), model.architecture.layers * tensor)
    return RankWeights(
        int(divided),
        int(replicated),
        int(absorbed * part),
        len(layers),
        unsure_bytes=unsure,
        table_bytes=tables // tensor,
        expert_bytes=totals.get("routed_experts", 0) // (tensor * data),
    )


def _padding(model: Model, layers: range, tensor: int, data: int, *, whole: bool) -> Padding:
    experts = model.architecture.experts
    if experts is None or not experts.intermediate_size:
        return Padding()
    stored = sum(
        line.bytes
        for line in model.weights
        if line.group == "routed_experts" and (line.layer is None or line.layer in layers)
    )
    width = experts.intermediate_size if whole else -(-experts.intermediate_size // tensor)
    grown = _rounded(width, _INSIDE) * _rounded(model.architecture.hidden_size, _BESIDE)
    why = f"experts are {width:,} wide on a rank, and kernels take whole {_INSIDE}s"
    return Padding(int(Fraction(stored, tensor * data) * (grown - 1)), why)


def _rounded(width: int, step: int) -> Fraction:
    return Fraction(-(-width // step) * step, width)


def _on_stage(line: WeightLine, layers: range, *, first: bool, last: bool, draft: bool) -> bool:
    if line.group == "draft":
        return last and draft
    if line.layer is not None and line.group != "vision":
        return line.layer in layers
    return first if line.group in ("embedding", "vision", "tables") else last


def _whole_share(group: Group, attention_share: Fraction, vision: Vision) -> Fraction | None:
    """The share of a group that every rank keeps; None if the engine does not load it."""
    if group == "vision":
        return {"divided": Fraction(0), "replicated": Fraction(1), "left out": None}[vision]
    if group == "attention":
        return attention_share
    return Fraction(1) if group in _WHOLE else Fraction(0)


def _whole_attention(kind: object, hidden: int, tensor: int) -> Fraction:
    if isinstance(kind, MlaAttention):
        return Fraction(kind.layers * hidden * ((kind.q_lora_rank or 0) + kind.kv_lora_rank + kind.rope_head_dim))
    if isinstance(kind, CompressedAttention):  # its one key head, and what compresses it (deepseek_v4/compressor.py)
        twice = 2 if kind.ratio == _OVERLAPPING else 1
        return Fraction(kind.layers * hidden * kind.head_dim * (1 + (2 * twice if kind.ratio else 0)))
    if isinstance(kind, GqaAttention) and tensor > kind.kv_heads:
        # Each rank keeps one whole KV head: more than its share.
        per_head = kind.layers * hidden * (kind.key_head_dim + kind.value_head_dim)
        return Fraction(per_head) * (1 - Fraction(kind.kv_heads, tensor)) / (1 - Fraction(1, tensor))
    return Fraction(0)


def _absorbed(kind: object) -> int:
    # Guard: W_UK_T and W_UV are kept beside kv_b_proj, in bf16 (vllm/model_executor/layers/attention/mla_attention.py).
    if isinstance(kind, MlaAttention) and kind.nope_head_dim and kind.value_head_dim:
        return BF16 * kind.layers * kind.kv_lora_rank * kind.heads * (kind.nope_head_dim + kind.value_head_dim)
    return 0
