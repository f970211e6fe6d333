"""ModelRow + Artifact -> Model: by the recorded configuration if there is one, else by the row's shape.

Of a build whose own configuration is not recorded the scheme's name tells what is stored how; sizes are marked derived.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from math import ceil
from typing import TYPE_CHECKING, Any, cast

from upright.base.bounds.bounded_json import parse_json
from upright.base.untrusted_text import checked_name
from upright.facts import catalog
from upright.facts.catalog import model_records
from upright.facts.catalog.model_records import artifact_name
from upright.facts.catalog.rows.base import Fact
from upright.facts.catalog.rows.model import Artifact, ModelRow, ModelShape, SchemeRow
from upright.facts.records.model import Architecture, Group, LinearAttention, Model, WeightLine
from upright.models.deriving.configuration import parse_configuration
from upright.models.deriving.model import model_of

if TYPE_CHECKING:
    from upright.facts.catalog.rows.words import GgmlTypeRow

_F32: frozenset[Group] = frozenset({"norm", "router"})
_F32_BITS, _NO_TOWER = 32, frozenset({"vision"})


def records(row: ModelRow) -> tuple[Model, ...]:
    """A record for every artifact: those of a published size in the row's order, then those whose size is derived."""
    made = [model for artifact in row.artifacts if (model := record(row, artifact)) is not None]
    return tuple(sorted(made, key=lambda model: model.basis == "derived"))


def record(row: ModelRow, artifact: Artifact) -> Model | None:
    """None if neither the row nor a configuration tells the artifact's size."""
    if row.configuration is None or (row.shape is not None and _told_by(row.shape, artifact)):
        return model_records.record(row, artifact)
    return _derived(row, artifact)


def _told_by(shape: ModelShape, artifact: Artifact) -> bool:
    """Whether the row's shape and the artifact's size tell its tensors; of recurrent layers a shape has no weights."""
    if artifact.size_bytes.value is None and artifact.expert_bits is None:
        return False
    recurrent = any(isinstance(kind, LinearAttention) for kind in shape.attention)
    return not (artifact.format == "gguf" and (recurrent or artifact.configuration is not None))


def architecture(row: ModelRow) -> Architecture | None:
    """What the model's tensors form; None if only headline figures are known."""
    if row.configuration is None:
        return model_records.architecture(row)
    return parse_configuration(catalog.configuration(row.configuration)).architecture


def _derived(row: ModelRow, artifact: Artifact) -> Model | None:
    assert row.configuration is not None
    scheme = _scheme(artifact)
    if artifact.configuration is not None:
        model = recorded_model(artifact.configuration, None)
    elif scheme is not None:
        model = recorded_model(row.configuration, json.dumps(scheme.declared or {}))
    elif artifact.repository != row.repository:
        return None
    else:
        model = recorded_model(row.configuration, None)
    source = f"{artifact.repository}:{artifact.quant}" if artifact.quant else artifact.repository
    update: dict[str, Any] = {"name": checked_name(artifact_name(row, artifact)), "source": checked_name(source)}
    update |= {"format": artifact.format, "quantisation": artifact.scheme}
    update["ik_only"] = model_records.only_the_fork_loads(artifact)
    if artifact.format == "gguf" or (scheme is not None and scheme.expert_bits is not None):
        bits = _bits(artifact, scheme, dense=model.architecture.experts is None)
        if bits is None:
            return None
        told = scheme is not None and bits[0] in (scheme.expert_bits, scheme.dense_bits)
        packed = _packed(model, *bits, (artifact.quant or "") if told else "")
        update |= {"weights": packed} if artifact.size_bytes.value is None else _of_size(packed, artifact.size_bytes)
    if limit := artifact.context_limit_tokens or row.context_limit_tokens:
        update["architecture"] = model.architecture.model_copy(update={"context_limit_tokens": limit})
    return model.model_copy(update=update)


@cache
def recorded_model(configuration: str, declared: str | None = None) -> Model:
    """Under its own quantization_config or another: all GGUFs of a model are packed from the same tensors."""
    config = catalog.configuration(configuration)
    config = config if declared is None else _restored(config, parse_json(declared))
    return model_of(config, name=configuration, source=configuration)


def _scheme(artifact: Artifact) -> SchemeRow | None:
    named = artifact.quant or artifact.scheme
    return cast("SchemeRow | None", catalog.rows("schemes").get(named))


def _restored(config: Mapping[str, Any], declared: Mapping[str, Any]) -> Mapping[str, Any]:
    """The same model under another quantization_config."""
    plain = {
        key: _restored(entry, {}) if isinstance(entry, Mapping) and "hidden_size" in entry else entry
        for key, entry in config.items()
        if key not in ("quantization_config", "expert_dtype")
    }
    return {**plain, "quantization_config": dict(declared)} if declared else plain


def _bits(artifact: Artifact, scheme: SchemeRow | None, *, dense: bool) -> tuple[float, float] | None:
    """Bits of an expert's weight and of any other."""
    experts, others = artifact.expert_bits, artifact.other_bits
    if scheme is not None and dense and scheme.dense_bits is not None:
        return scheme.dense_bits, scheme.dense_bits
    if experts is not None and experts.value is not None:
        return float(experts.value), float(others.value if others is not None and others.value else 8.5)
    if scheme is None or scheme.expert_bits is None or scheme.other_bits is None:
        return None
    return scheme.expert_bits, scheme.other_bits


def _of_size(packed: tuple[WeightLine, ...], published: Fact) -> dict[str, Any]:
    """The same tensors in a file of this size: what the type does not tell is in the experts, or in all if dense."""
    size, routed = cast("int", published.value), any(line.group == "routed_experts" for line in packed)
    scaled = [line.group == "routed_experts" or (not routed and line.group not in _F32) for line in packed]
    rest = sum(line.bytes for line, one in zip(packed, scaled, strict=True) if not one)
    derived = sum(line.bytes for line in packed) - rest
    if size <= rest or not derived:
        return {"weights": packed}
    share = (size - rest) / derived
    lines = (_scaled(line, share) if one else line for line, one in zip(packed, scaled, strict=True))
    return {"weights": tuple(lines), "basis": "catalog"}


def _scaled(line: WeightLine, share: float) -> WeightLine:
    size = ceil(line.bytes * share)
    return line.model_copy(update={"dtype": f"{8 * size / line.parameters:.3g} bits", "bytes": size})


def _packed(model: Model, expert_bits: float, other_bits: float, quant: str) -> tuple[WeightLine, ...]:
    """A GGUF file has no towers (they are a file of their own) and keeps norms and routers in F32.

    So are packings of every matrix in words: their engine loads no tower, and norms weigh nothing.
    """
    packed, shape = [], model.architecture
    tied = not any(line.group == "output" for line in model.weights)
    for line in model.weights:
        if line.group in _NO_TOWER:
            continue
        bits: float = _F32_BITS
        if line.group == "routed_experts":
            bits = stored_expert_bits(expert_bits, quant, shape, line)
        elif line.group == "embedding" and tied:
            bits = stored_embedding_bits(other_bits, quant, shape)
        elif line.group not in _F32:
            bits = stored_other_bits(other_bits, quant, shape)
        size = ceil(line.parameters * bits / 8)
        packed.append(line.model_copy(update={"dtype": f"{bits:.3g} bits", "bytes": size}))
    return tuple(packed)


_PLAIN = re.compile(r"(?:UD-)?(I?Q\d_(?:K(?![A-Z])|XXS|XS|S|M|NL)|TQ\d_0)", re.IGNORECASE)
# Mixes that are called as no type is: what most of their weights are.
_MIXES = {"IQ2_M": "IQ2_S", "IQ3_M": "IQ3_S", "IQ3_XS": "IQ3_S"}
_MORE = "Q6_K"
"""What mixes store in a part of the layers, in their down projections."""
_GATED = 3
"""Matrices of an expert with a gate: two in, one out."""


def stored_expert_bits(bits: float, quant: str, shape: Architecture, line: WeightLine) -> float:
    """Of a routed expert's weight; `bits` where every row is a whole number of blocks."""
    kind, experts = _type(quant), shape.experts
    if kind is None or experts is None or not experts.intermediate_size:
        return bits
    outwards = 1 / _matrices(shape, line)
    into, out = _uneven(shape.hidden_size, kind), _uneven(experts.intermediate_size, kind)
    return _mixed(bits, kind, outwards, into=into, out=out) if into or out else bits


def stored_embedding_bits(bits: float, quant: str, shape: Architecture) -> float:
    """Of an embedding that is the output matrix too: K types store it as they do an output matrix, in Q6_K."""
    kind, more = _type(quant), _row(_MORE)
    if kind is None or not kind.name.startswith("Q") or bits >= _type_bits(more):
        return stored_other_bits(bits, quant, shape)
    return _type_bits(_instead(more) if _uneven(shape.hidden_size, more) else more)


def stored_other_bits(bits: float, quant: str, shape: Architecture) -> float:
    """Of the weights of matrices whose rows are as long as the model is wide."""
    kind = _type(quant)
    if kind is None or not _uneven(shape.hidden_size, kind) or bits >= _type_bits(_instead(_row(_MORE))):
        return bits
    return _mixed(bits, kind, 1.0, into=True, out=True)


def _mixed(bits: float, kind: GgmlTypeRow, outwards: float, *, into: bool, out: bool) -> float:
    """What is above the type's own bits is in matrices that lead out, in Q6_K."""
    more = _row(_MORE)
    raised = (
        min(1.0, max(0.0, (bits - _type_bits(kind)) / (_type_bits(more) - _type_bits(kind))))
        if _type_bits(kind) < _type_bits(more)
        else 0
    )
    raised = min(1.0, raised / outwards)
    inner = _type_bits(_instead(kind)) if into else _type_bits(kind)
    plain, better = (_instead(kind), _instead(more)) if out else (kind, more)
    return (1 - outwards) * inner + outwards * ((1 - raised) * _type_bits(plain) + raised * _type_bits(better))


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


def _type_bits(kind: GgmlTypeRow) -> float:
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
