"""config.json alone -> Model: sizes from shapes and quantisation, marked as derived."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from upright.facts.records.model import Architecture, Group, Model, Table, WeightLine
from upright.models.deriving.configuration import parse_configuration, text_part, wrappers
from upright.models.deriving.layers import ParsedConfiguration
from upright.models.deriving.quantisation import Scheme, StoredTensor
from upright.models.deriving.tensor_builder import DerivedTensor

_ORDER: tuple[Group, ...] = (
    "embedding", "attention", "indexer", "dense_ffn", "router", "routed_experts", "shared_experts", "norm", "output",
    "tables", "vision", "draft", "other",
)  # fmt: skip


def model_of(config: Mapping[str, Any], *, name: str, source: str, file: str = "config.json") -> Model:
    """What an engine would load, as far as the configuration tells; no file was read but it."""
    configuration = parse_configuration(config, file)
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
        architecture=with_bounds(configuration.architecture, told),
        files=(),
        weights=weights,
        quantisation=scheme.method,
    )


def weight_lines(
    config: Mapping[str, Any], configuration: ParsedConfiguration, scheme: Scheme
) -> tuple[WeightLine, ...]:
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


def with_bounds(architecture: Architecture, told: tuple[str, ...]) -> Architecture:
    """Where only the weights' format is not understood the layers are what they are."""
    if told and architecture.attention_at_least is None:
        kinds = architecture.attention
        return architecture.model_copy(update={"attention_at_least": kinds, "attention_at_most": kinds})
    return architecture


VISION_KEYS = ("vision_config", "visual_config", "visual", "vit_config", "vision_tower_config")
AUDIO_KEYS = ("audio_config", "speech_config", "sound_config")
_DEPTHS = ("depth", "num_hidden_layers", "num_layers", "vt_num_hidden_layers", "layers", "encoder_layers", "n_layers")
_WIDTHS = ("embed_dim", "hidden_size", "vt_hidden_size", "width", "d_model")
_INNER = ("intermediate_size", "vt_intermediate_size", "mlp_dim", "encoder_ffn_dim", "ffn_dim")
_MERGES = ("spatial_merge_size", "merge_size")
_LARGEST = 2**20


def tower_tensors(config: Mapping[str, Any], hidden: int) -> tuple[DerivedTensor, ...]:
    """One tensor a tower, with the number of its weights as its shape; none for a tower that does not say its size."""
    tensors = []
    for name in (*VISION_KEYS, *AUDIO_KEYS):
        part = config.get(name)
        if not isinstance(part, Mapping):
            continue
        if count := _weights(part, hidden):
            tensors.append(DerivedTensor("vision", None, f"{name.removesuffix('_config')}.estimated", (count,)))
    return tuple(tensors)


def _weights(part: Mapping[str, Any], hidden: int) -> int:
    depth, width = _first(part, _DEPTHS), _first(part, _WIDTHS)
    if not depth or not width or depth > 1000:
        return 0
    inner = _first(part, _INNER) or (int(width * part["mlp_ratio"]) if _ratio(part) else 4 * width)
    attention = 4 * width * (_first(part, ("qkv_hidden_size",)) or width)
    gated = 3 if part.get("hidden_act") in ("silu", "swish") or "hidden_activation" in part else 2
    block = attention + gated * width * inner + 4 * width + inner
    patch = _first(part, ("patch_size",)) or 14
    merge = _first(part, _MERGES) or _merge_kernel(part)
    joined = width * merge * merge
    outwards = _first(part, ("out_hidden_size",)) or hidden
    positions = _first(part, ("num_position_embeddings", "position_embedding_size")) or 0
    mergers = 1 + len(part["deepstack_visual_indexes"]) if isinstance(part.get("deepstack_visual_indexes"), list) else 1
    return depth * block + 3 * patch * patch * width + positions * width + mergers * joined * (joined + outwards)


def _first(part: Mapping[str, Any], names: tuple[str, ...]) -> int:
    for name in names:
        number = part.get(name)
        if type(number) is int and 0 < number <= _LARGEST:
            return number
    return 0


def _ratio(part: Mapping[str, Any]) -> bool:
    ratio = part.get("mlp_ratio")
    return isinstance(ratio, int | float) and 0 < ratio < 100


def _merge_kernel(part: Mapping[str, Any]) -> int:
    kernel = part.get("merge_kernel_size")
    return kernel[0] if isinstance(kernel, list) and kernel and type(kernel[0]) is int and 0 < kernel[0] < 64 else 1
