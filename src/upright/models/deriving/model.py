"""config.json alone -> Model: sizes from shapes and quantisation, marked as derived."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from upright.facts.records.model import Architecture, Group, Model, Table, WeightLine
from upright.models.deriving.configuration import configured, text_part, wrappers
from upright.models.deriving.layers import Configured
from upright.models.deriving.quantised import Scheme, StoredTensor
from upright.models.deriving.towers import tower_tensors

_ORDER: tuple[Group, ...] = (
    "embedding", "attention", "indexer", "dense_ffn", "router", "routed_experts", "shared_experts", "norm", "output",
    "tables", "vision", "draft", "other",
)  # fmt: skip


def model_of(config: Mapping[str, Any], *, name: str, source: str, file: str = "config.json") -> Model:
    """What an engine would load, as far as the configuration tells; no file was read but it."""
    configuration = configured(config, file)
    scheme = Scheme(config, text_part(config))
    told, weights = configuration.not_understood, weight_lines(config, configuration, scheme)
    if scheme.unknown and scheme.unknown not in told:
        told = (*told, scheme.unknown)
    return Model(
        name=name,
        source=source,
        format="safetensors",
        basis="derived",
        not_understood=told,
        assumed=(*configuration.assumed, *scheme.assumed),
        architecture=bounded(configuration.architecture, told),
        files=(),
        weights=weights,
        quantisation=scheme.method,
    )


def weight_lines(config: Mapping[str, Any], configuration: Configured, scheme: Scheme) -> tuple[WeightLine, ...]:
    """Every tensor, added up by group, layer and format."""
    hidden = configuration.architecture.hidden_size
    towers = (tower for around in wrappers(config) for tower in tower_tensors(around, hidden))
    tensors = (*configuration.tensors, *towers)
    tables = {table.name.lower().replace(" ", "_"): table for table in configuration.architecture.tables}
    sums: dict[tuple[Group, int | None, str], list[int]] = {}
    for stored in scheme.stored(tensors):
        tensor, size = stored.tensor, _table_bytes(stored, tables)
        line = sums.setdefault((tensor.group, tensor.layer, stored.label), [0, 0, 0])
        line[0] += tensor.copies
        line[1] += tensor.parameters
        line[2] += size
    ordered = sorted(sums.items(), key=lambda entry: (_ORDER.index(entry[0][0]), entry[0][1] or 0, entry[0][2]))
    return tuple(
        WeightLine(group=key[0], layer=key[1], dtype=key[2], tensors=line[0], parameters=line[1], bytes=line[2])
        for key, line in ordered
    )


def _table_bytes(stored: StoredTensor, tables: Mapping[str, Table]) -> int:
    table = tables.get(stored.tensor.name.removesuffix(".weight"))
    return table.rows * table.row_bytes if table is not None else stored.bytes


def bounded(architecture: Architecture, told: tuple[str, ...]) -> Architecture:
    """Where only the weights' format is not understood the layers are what they are."""
    if told and architecture.attention_at_least is None:
        kinds = architecture.attention
        return architecture.model_copy(update={"attention_at_least": kinds, "attention_at_most": kinds})
    return architecture
