"""Model -> what its header promises and its tensors do not hold.

Only what no build, quantisation or pruning explains: a layer without a tensor, a table smaller than its own rows.
"""

from __future__ import annotations

from collections.abc import Iterator

from upright.facts.records.model import Model

_LEAST_OF_TABLE, _LEAST_OF_EXPERTS = 0.3, 0.1
"""Of the weights that a table, and three matrices an expert, would have: Nemotron's latent experts have a sixth."""
_MOST_EXTRA_LAYERS = 8
"""Layers beyond the promised ones that may be drafts, which not every header counts."""


def contradictions(model: Model) -> tuple[str, ...]:
    """In sentences, the gravest first; empty of what was not read from tensors."""
    return tuple(_contradictions(model)) if model.basis == "read" else ()


def _contradictions(model: Model) -> Iterator[str]:
    shape = model.architecture
    within = [line for line in model.weights if line.layer is not None and line.group != "vision"]
    held = {line.layer for line in within if line.group != "draft"}
    extra = len({line.layer for line in within} - set(range(shape.layers)))
    missing = len(set(range(shape.layers)) - held)
    table = shape.vocabulary_size * shape.hidden_size
    if missing and held and not model.unknown:
        yield f"its header claims {shape.layers:,} layers, and of {missing:,} of them there is no tensor"
    if extra > max(shape.draft_layers, _MOST_EXTRA_LAYERS):
        yield f"its header claims {shape.layers:,} layers, and there are tensors of {extra:,} more"
    if model.parameters < table:
        yield f"its tensors have {model.parameters:,} weights, and its embedding alone would have {table:,}"
    elif 0 < (rows := _parameters(model, "embedding")) < _LEAST_OF_TABLE * table:
        claimed_table = f"{shape.vocabulary_size:,} x {shape.hidden_size:,}"
        yield f"its embedding has {rows:,} weights, and its header claims {claimed_table}"
    experts = shape.experts
    if experts is not None and experts.intermediate_size and not model.unknown:
        layers = len({line.layer for line in within if line.group == "routed_experts"})
        claimed = layers * experts.count * 3 * shape.hidden_size * experts.intermediate_size
        if (have := _parameters(model, "routed_experts")) < _LEAST_OF_EXPERTS * claimed:
            of = f"{experts.count:,} experts in each of {layers:,} layers"
            yield f"its experts have {have:,} weights, and its header claims {of}, {claimed:,}"
        if not layers and shape.layers > experts.first_moe_layer and not missing:
            yield f"its header claims {experts.count:,} experts a layer, and there is no tensor of them"


def _parameters(model: Model, group: str) -> int:
    return sum(line.parameters for line in model.weights if line.group == group)
