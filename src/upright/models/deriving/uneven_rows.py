"""Bits of a GGUF type -> bits where rows are not whole blocks of 256: llama.cpp stores another type there.

A third of the weights of GLM-4.5-Air and Gemma 4 26B (experts of 1,408 and 704), and all of Nemotron 3 Nano (2,688 and
1,856), are stored so: files called Q4_K_M are a tenth to a quarter larger than the name tells.
"""

from __future__ import annotations

import re
from functools import cache

from upright.facts import catalog
from upright.facts.catalog.rows.words import GgmlTypeRow
from upright.facts.records.model import Architecture, WeightLine

_PLAIN = re.compile(r"(?:UD-)?(I?Q\d_(?:K(?![A-Z])|XXS|XS|S|M|NL)|TQ\d_0)", re.IGNORECASE)
# Mixes that are called as no type is: what most of their weights are.
_MIXES = {"IQ2_M": "IQ2_S", "IQ3_M": "IQ3_S", "IQ3_XS": "IQ3_S"}
_MORE = "Q6_K"
"""What mixes store in a part of the layers, in their down projections."""
_GATED = 3
"""Matrices of an expert with a gate: two in, one out."""


def expert_bits(bits: float, quant: str, shape: Architecture, line: WeightLine) -> float:
    """Of a routed expert's weight; `bits` where every row is a whole number of blocks."""
    kind, experts = _type(quant), shape.experts
    if kind is None or experts is None or not experts.intermediate_size:
        return bits
    outwards = 1 / _matrices(shape, line)
    into, out = _uneven(shape.hidden_size, kind), _uneven(experts.intermediate_size, kind)
    return _mixed(bits, kind, outwards, into=into, out=out) if into or out else bits


def embedding_bits(bits: float, quant: str, shape: Architecture) -> float:
    """Of an embedding that is the output matrix too: K types store it as they do an output matrix, in Q6_K."""
    kind, more = _type(quant), _row(_MORE)
    if kind is None or not kind.name.startswith("Q") or bits >= _bits(more):
        return other_bits(bits, quant, shape)
    return _bits(_instead(more) if _uneven(shape.hidden_size, more) else more)


def other_bits(bits: float, quant: str, shape: Architecture) -> float:
    """Of the weights of matrices whose rows are as long as the model is wide."""
    kind = _type(quant)
    if kind is None or not _uneven(shape.hidden_size, kind) or bits >= _bits(_instead(_row(_MORE))):
        return bits
    return _mixed(bits, kind, 1.0, into=True, out=True)


def _mixed(bits: float, kind: GgmlTypeRow, outwards: float, *, into: bool, out: bool) -> float:
    """What is above the type's own bits is in matrices that lead out, in Q6_K."""
    more = _row(_MORE)
    raised = min(1.0, max(0.0, (bits - _bits(kind)) / (_bits(more) - _bits(kind)))) if _bits(kind) < _bits(more) else 0
    raised = min(1.0, raised / outwards)
    inner = _bits(_instead(kind)) if into else _bits(kind)
    plain, better = (_instead(kind), _instead(more)) if out else (kind, more)
    return (1 - outwards) * inner + outwards * ((1 - raised) * _bits(plain) + raised * _bits(better))


def _matrices(shape: Architecture, line: WeightLine) -> int:
    """Of one expert: three with a gate, two without; a latent space before the experts hides the number."""
    experts = shape.experts
    assert experts is not None
    assert experts.intermediate_size is not None
    matrices = line.parameters / (experts.count * shape.hidden_size * experts.intermediate_size)
    return _GATED if matrices > (_GATED + 2) / 2 else 2


def _uneven(columns: int, kind: GgmlTypeRow) -> bool:
    return columns % kind.block_elements != 0


def _instead(kind: GgmlTypeRow) -> GgmlTypeRow:
    return _row(kind.instead) if kind.instead else kind


def _bits(kind: GgmlTypeRow) -> float:
    return kind.bits_per_weight


@cache
def _type(quant: str) -> GgmlTypeRow | None:
    """The type that most of such a file is stored in; None if its blocks are shorter than any row."""
    named = _PLAIN.match(quant)
    name = named[1].upper() if named else quant.upper()
    known = {row.name: row for row in catalog.ggml_types()}
    kind = known.get(_MIXES.get(name, name))
    return kind if kind is not None and kind.instead else None


def _row(name: str) -> GgmlTypeRow:
    return next(row for row in catalog.ggml_types() if row.name == name)
