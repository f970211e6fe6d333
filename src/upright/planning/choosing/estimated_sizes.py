"""About how large an artifact's weights are, by its catalogue row alone."""

from __future__ import annotations

from typing import cast

from upright.facts import catalog
from upright.facts.catalog.rows.model import Artifact, ModelRow, SchemeRow
from upright.facts.records.box import Box
from upright.facts.records.model import Group, Model
from upright.planning.placement.devices import LEAST_HOST_BYTES, host_bytes

_DECLARED = {"BF16": 16.0, "FP8": 8.0, "FP8 tensor": 8.0, "NVFP4": 4.5, "MXFP4": 4.25}
_LEAST_SHARE = 0.7
"""Of what a row tells that is needed at least: parameters are rounded, and lookup tables may be anywhere."""
_LEAST_BITS = 1.5
"""Fewer bits a weight than any build has."""
_ON_GPUS: frozenset[Group] = frozenset({"attention", "dense_ffn", "shared_experts"})
_LEFT_OUT: frozenset[Group] = frozenset({"draft", "vision", "tables"})


def estimated_bits(row: ModelRow, artifact: Artifact) -> float | None:
    """Of a routed weight, by its size if that was published: experts that were cut out are weights of no bits."""
    if artifact.size_bytes.value and row.parameters.value:
        return float(8 * artifact.size_bytes.value / row.parameters.value)
    if artifact.expert_bits is not None and artifact.expert_bits.value is not None:
        return float(artifact.expert_bits.value)
    scheme = cast("SchemeRow | None", catalog.rows("schemes").get(artifact.quant or artifact.scheme))
    if scheme is None:
        return None
    if scheme.expert_bits is not None:
        return scheme.expert_bits
    return _DECLARED.get(scheme.id)


def estimated_bytes(row: ModelRow, artifact: Artifact) -> int | None:
    """A size that is not exact: published, or parameters times bits."""
    published = artifact.size_bytes.value
    if published is not None:
        return int(published)
    parameters, bits = row.parameters.value, estimated_bits(row, artifact)
    return int(parameters * bits / 8) if parameters and bits else None


def all_memory(box: Box, artifact_format: str) -> float:
    """Of GPUs, and of the system for what may be left there, with nothing taken off: a bound refuses none that fits."""
    on_gpus = sum(gpu.memory_bytes.value or 0 for gpu in box.gpus)
    if on_gpus and artifact_format != "gguf":
        return on_gpus
    return on_gpus + (max(host_bytes(box).value or 0, box.memory_bytes.value or 0) or LEAST_HOST_BYTES)


def least_bytes(row: ModelRow, artifact: Artifact) -> float:
    """Bytes that are needed at least, by the row; of weights whose bits it does not tell, as few as may be taken."""
    bits = 1.0 if artifact is row.artifacts[0] else _LEAST_BITS
    return _LEAST_SHARE * (estimated_bytes(row, artifact) or bits / 8 * (row.parameters.value or 0))


def least_of_type(row: ModelRow, gguf_type: str) -> float:
    """Bytes at least of a GGUF of this type, by the row."""
    scheme = cast("SchemeRow", catalog.rows("schemes")[gguf_type])
    return _LEAST_SHARE * (scheme.expert_bits or 0) / 8 * (row.parameters.value or 0)


def dense(row: ModelRow) -> bool:
    """Whether a token visits every weight, so that none is left in system RAM where there are GPUs."""
    return row.active_parameters.value is not None and row.active_parameters.value == row.parameters.value


def may_fit(row: ModelRow, artifact: Artifact, box: Box) -> bool:
    """Whether the memory that it can have may hold it, as far as the row tells."""
    return least_bytes(row, artifact) <= all_memory(box, "" if dense(row) else artifact.format)


def may_be_placed(model: Model, box: Box) -> bool:
    """Whether all memory holds what every engine loads, and the GPUs, if there are any, what only they can have."""
    needed = sum(line.bytes for line in model.weights if line.group not in _LEFT_OUT)
    stays = sum(line.bytes for line in model.weights if line.group in _ON_GPUS)
    on_gpus = all_memory(box, "") if box.gpus else needed
    return needed <= all_memory(box, model.format) and stays <= on_gpus
