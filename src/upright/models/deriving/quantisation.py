"""Tensors + quantization_config -> bytes and format of each, scales included.

What a method leaves alone is in its list; where the list is silent, embeddings, the output, norms and routers are never
quantised. A method that is not known here gives no sizes: its name is told.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from math import ceil, prod
from typing import Any, NamedTuple

from upright.facts.records.model import LibraryDefault
from upright.models.deriving.module_lists import SkippedModules, Targets, bare, targets_of
from upright.models.deriving.tensor_builder import DerivedTensor

_TYPES = {"bfloat16": ("BF16", 2), "float16": ("F16", 2), "float32": ("F32", 4)}
_MOST_NAMES = 400_000
_NEVER: frozenset[str] = frozenset({"embedding", "norm", "router", "tables", "vision"})
_KEPT = _NEVER | {"output"}
_PLAIN_LABELS = frozenset({"BF16", "F16", "F32", "I64"})


class Format(NamedTuple):
    """How a matrix is stored."""

    label: str
    size: Callable[[tuple[int, ...]], int]


class StoredTensor(NamedTuple):
    """A tensor with its format and its bytes, all of its count together."""

    tensor: DerivedTensor
    label: str
    bytes: int


class Scheme:
    """One quantization_config: which matrices it stores how."""

    def __init__(self, config: Mapping[str, Any], text: Mapping[str, Any]) -> None:
        self.declared = _declaration(config, text)
        self.method = _method(self.declared)
        dtype = _word(text, "dtype", "torch_dtype") or _word(config, "dtype", "torch_dtype")
        self.base = _TYPES.get(dtype or "bfloat16", _TYPES["bfloat16"])
        self._left_alone = SkippedModules(self.declared)
        self._groups = _groups(self.declared)
        self._by_layer = _by_layer(self.declared)
        self.experts = _word(self.declared, "expert_dtype") or _word(text, "expert_dtype")
        self._experts_apart = _word(self.declared, "store_dtype")
        self.assumed = _assumed(self, dtype)
        self._named: set[str] = set()
        self._met: set[int] = set()
        self.unknown = None if self._is_known() else "quantization_config"

    def stored(self, tensors: Iterable[DerivedTensor]) -> tuple[StoredTensor, ...]:
        """Not understood if a method is declared and no tensor answers to what it names."""
        stored = tuple(self._stored(tensor) for tensor in tensors)
        plain = not any(kept.label not in _PLAIN_LABELS for kept in stored)
        missed = any(name.startswith("layers.") and name not in self._named for name in self._by_layer)
        asked = not self._by_layer and not any(targets.all_linear for targets, _ in self._groups)
        missed = missed or (asked and len(self._met) < len(self._groups))
        if self.method is not None and (plain or missed):
            self.unknown = "quantization_config"
        return stored

    def _stored(self, tensor: DerivedTensor) -> StoredTensor:
        form = self._format(tensor)
        if form is None:
            wide = tensor.name.endswith("e_score_correction_bias")
            label, element_bytes = ("F32", 4) if wide else self.base
            if tensor.name.endswith("tid2eid"):
                label, element_bytes = "I64", 8
            return StoredTensor(tensor, label, prod(tensor.shape) * tensor.copies * element_bytes)
        return StoredTensor(tensor, form.label, form.size(tensor.shape) * tensor.copies)

    def _format(self, tensor: DerivedTensor) -> Format | None:
        if self.method is None or self.unknown or not tensor.linear or not tensor.name.endswith(".weight"):
            return None
        name = tensor.name.removesuffix(".weight")
        path = name if tensor.layer is None else f"layers.{tensor.layer}.{name}"
        if self._by_layer and (form := self._named_format(path)) is not None:
            return form
        if self._by_layer:
            return self._plain(tensor) if self.method == "fp8" and tensor.group not in _KEPT else None
        for number, (targets, form) in enumerate(self._groups):
            if targets.all_linear or targets.match(path):
                self._met.add(number)
                return None if self._alone(tensor, path) else form
        if self._groups:
            return None
        return None if self._alone(tensor, path) else self._plain(tensor)

    def _alone(self, tensor: DerivedTensor, path: str) -> bool:
        if tensor.group in _NEVER or (tensor.group == "output" and not self._targets_output()):
            return True
        if tensor.group == "draft" and re.search(r"eh_proj|gate$|shared_head", path):
            return True
        return self._left_alone.holds(path)

    def _targets_output(self) -> bool:
        return bool(self.declared.get("lm_head"))

    def _named_format(self, path: str) -> Format | None:
        stem = path
        while stem:
            if stem in self._by_layer:
                self._named.add(stem)
                return self._by_layer[stem]
            stem = stem.rpartition(".")[0]
        return None

    def _plain(self, tensor: DerivedTensor) -> Format | None:
        """Methods that say one thing for all matrices."""
        if self.method == "mxfp4":
            return MXFP4 if tensor.group == "routed_experts" else None
        if self.method == "fp8":
            routed = tensor.group == "routed_experts" or ".experts." in tensor.name
            if routed and (self.experts == "fp4" or self._experts_apart == "mxfp4"):
                return MXFP4
            return fp8(self.declared, narrow=self.experts is not None)
        if self.method in ("awq", "gptq"):
            return packed(self.method, self.declared)
        algorithm = str(self.declared.get("quant_algo") or _inner(self.declared, "quantization", "quant_algo") or "")
        return _modelopt(algorithm)

    def _is_known(self) -> bool:
        if self.method is None:
            return not self.declared
        if not self._left_alone.understood:
            return False
        if self._experts_apart not in (None, "mxfp4"):
            return False  # vLLM 0.32.0 quantization/fp8.py:199: routed experts are stored otherwise than the rest
        if self.method in ("fp8", "mxfp4", "awq", "gptq"):
            return True
        if self.method in ("compressed-tensors", "modelopt", "modelopt_fp4", "modelopt_mixed"):
            return bool(self._groups or self._by_layer or self._plain(_PROBE))
        return False


def _plain_bits(label: str, bits: int, group: int | None, scale_bytes: float) -> Format:
    """Packed weights with a scale for each group along a row."""

    def size(shape: tuple[int, ...]) -> int:
        rows, columns = shape[-2], shape[-1]
        scales = rows * ceil(columns / group) if group else rows
        return rows * ceil(columns * bits / 8) + ceil(scales * scale_bytes)

    return Format(label, size)


NVFP4 = _plain_bits("NVFP4", 4, 16, 1)
MXFP4 = _plain_bits("MXFP4", 4, 32, 1)
MXFP8 = _plain_bits("MXFP8", 8, 32, 1)
FP8 = Format("FP8", lambda shape: prod(shape) + 4)
_PROBE = DerivedTensor("routed_experts", 0, "mlp.experts.up_proj.weight", (64, 64))


def fp8(declared: Mapping[str, Any], *, narrow: bool) -> Format:
    """Blocks with a scale each: four bytes, or one where scales are powers of two."""
    block = declared.get("weight_block_size")
    if not isinstance(block, list) or len(block) != 2 or any(type(side) is not int or side < 1 for side in block):
        return FP8
    high, wide = block
    scale = 1 if narrow else 4
    return Format(f"FP8_B{wide}", lambda shape: prod(shape) + ceil(shape[-2] / high) * ceil(shape[-1] / wide) * scale)


def packed(method: str, declared: Mapping[str, Any]) -> Format:
    """AWQ and GPTQ: 32-bit words, scales in half precision, zero points; GPTQ keeps an index of groups too."""
    bits, group = declared.get("bits") or declared.get("w_bit") or 4, declared.get("group_size") or 128
    bits = bits if type(bits) is int and 1 <= bits <= 8 else 4

    def size(shape: tuple[int, ...]) -> int:
        rows, columns = shape[-2], shape[-1]
        groups = ceil(columns / group) if type(group) is int and group > 0 else 1
        packed_bytes = ceil(columns * rows * bits / 32) * 4
        index = 4 * columns if method == "gptq" else 0
        return packed_bytes + groups * rows * 2 + groups * ceil(rows * bits / 32) * 4 + index

    return Format(f"{method.upper()}_INT{bits}_G{group}", size)


def _modelopt(algorithm: str) -> Format | None:
    name = algorithm.upper()
    if "AWQ" in name and "NVFP4" not in name:
        return packed("awq", {}) if name in ("W4A16_AWQ", "W4A8_AWQ", "INT4_AWQ") else None
    for form in (NVFP4, MXFP4, MXFP8):
        if form.label in name:
            return form
    if name.startswith("FP8_PB"):
        return fp8({"weight_block_size": [128, 128]}, narrow=False)
    return FP8 if name.startswith("FP8") else None


def _assumed(scheme: Scheme, dtype: str | None) -> tuple[LibraryDefault, ...]:
    """What is taken for keys of storage that are absent."""
    rows = (
        ("dtype", "bfloat16", "what checkpoints of today are stored in", dtype not in _TYPES),
        ("quantization_config", None, "absent: weights are stored in dtype", not scheme.declared),
        ("expert_dtype", None, "absent: experts are stored as the rest", scheme.method == "fp8" and not scheme.experts),
    )
    return tuple(
        LibraryDefault(key=key, value=taken, source=source, decides="weights")
        for key, taken, source, absent in rows
        if absent
    )


def _method(declared: Mapping[str, Any]) -> str | None:
    """As declared; ModelOpt's older files name an algorithm and their maker, and no method."""
    method = declared.get("quant_method")
    if isinstance(method, str):
        return method
    return "modelopt" if _inner(declared, "producer", "name") == "modelopt" and "quant_algo" in declared else None


def _by_layer(declared: Mapping[str, Any]) -> dict[str, Format]:
    """ModelOpt's list of layers, each with its own algorithm."""
    listed = declared.get("quantized_layers")
    if not isinstance(listed, Mapping):
        return {}
    forms: dict[str, Format] = {}
    for name, own in list(listed.items())[:_MOST_NAMES]:
        form = _modelopt(str(own.get("quant_algo", ""))) if isinstance(own, Mapping) else None
        if form is not None:
            forms[bare(str(name))] = form
    return forms


def _groups(declared: Mapping[str, Any]) -> tuple[tuple[Targets, Format], ...]:
    """Groups of compressed-tensors and ModelOpt; one whose weights are not known is left out."""
    listed = declared.get("config_groups")
    if not isinstance(listed, Mapping):
        return ()
    groups = []
    for own in list(listed.values())[:64]:
        weights = own.get("weights") if isinstance(own, Mapping) else None
        form = _group_format(weights, str(own.get("format") or declared.get("format") or "")) if weights else None
        if form is not None:
            groups.append((targets_of(own.get("targets")), form))
    return tuple(groups)


def _group_format(weights: Mapping[str, Any], stored: str) -> Format | None:
    bits, kind, group = weights.get("num_bits"), weights.get("type"), weights.get("group_size")
    if type(bits) is not int or not 1 <= bits <= 8:
        return None
    if kind == "float" and bits == 4:
        return MXFP4 if "mxfp4" in stored or group == 32 else NVFP4
    if kind == "float" and bits == 8:
        block = weights.get("block_structure")
        return fp8({"weight_block_size": block}, narrow=False) if isinstance(block, list) else FP8
    if kind == "int":
        size = group if type(group) is int and group > 0 else None
        return _plain_bits(f"INT{bits}{f'_G{size}' if size else ''}", bits, size, 2)
    return None


def _declaration(config: Mapping[str, Any], text: Mapping[str, Any]) -> Mapping[str, Any]:
    for holder in (config, text):
        for name in ("quantization_config", "compression_config"):
            own = holder.get(name)
            if isinstance(own, Mapping):
                return own
    return {}


def _inner(value: Any, *path: str) -> Any:
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def _word(holder: Mapping[str, Any], *names: str) -> str | None:
    for name in names:
        entry = holder.get(name)
        if isinstance(entry, str):
            return entry.removeprefix("torch.")
    return None
