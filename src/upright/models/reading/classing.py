"""A tensor whose name no pattern knows -> its group, by its shape and what the configuration says of shapes.

Only shapes that nothing else has decide: a row for each word of the vocabulary, a first axis as long as there are
experts, a vector no wider than a layer. Everything else stays in `other`, and a plan counts it both ways.
"""

from __future__ import annotations

import re

from upright.facts.records.model import Architecture, Group
from upright.models.reading.inventory import TensorKind
from upright.models.reading.names import TensorPlace

_LAYER = re.compile(r"(?:^|\.)(?:layers?|blocks?|h)\.([0-9]{1,5})\.")
_MATRIX = 2


def placed_by_shape(kind: TensorKind, architecture: Architecture, copies: int) -> TensorPlace | None:
    """Where a tensor of this shape belongs, `copies` of it; None if several things could have it."""
    match = _LAYER.search(kind.name)
    layer = int(match[1]) if match else None
    if layer is not None and layer >= architecture.layers:
        return TensorPlace("draft", layer, known=False)
    group = _group(kind, architecture, copies, outside=layer is None)
    return TensorPlace(group, layer, known=False) if group else None


def _group(kind: TensorKind, architecture: Architecture, copies: int, *, outside: bool) -> Group | None:
    shape, experts = kind.shape, architecture.experts
    wide = max(architecture.hidden_size, architecture.intermediate_size or 0)
    if outside:
        rows = len(shape) == _MATRIX and shape[0] >= architecture.vocabulary_size
        return "embedding" if rows and shape[1] == architecture.hidden_size else None
    if experts is not None and experts.count > 1:
        if len(shape) > _MATRIX and shape[0] == experts.count:
            return "routed_experts"
        if copies >= experts.count and copies % experts.count == 0 and len(shape) == _MATRIX:
            return "routed_experts"
        if len(shape) == _MATRIX and shape[0] == experts.count and shape[1] == architecture.hidden_size:
            return "router"
    if len(shape) == 1 and shape[0] <= 4 * wide:
        return "norm"
    return None
