"""The quantisation format of stored weights, from tensor types, shapes and scales.

What is stored decides (types, shapes and the companions of a weight); the declaration in config.json only says what the
headers cannot: how many bits are packed into an integer.

A format is written as INT4_G32, FP8_B128, NVFP4, MXFP4, AWQ_INT4_G128, GPTQ_INT4_G128, AFFINE_INT4_G64, or is the plain
stored type. MLX packs rows into 32-bit words, of which the shapes tell only group times bits: the rest is declared.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, NamedTuple

from upright.facts.catalog import packings
from upright.models.deriving.words import WordPacking, word_packing
from upright.models.reading.inventory import TensorKind, TensorTally

COMPANIONS = frozenset({
    "weight_scale", "weight_scale_inv", "weight_scale_2", "weight_shape", "weight_zero_point", "weight_g_idx",
    "weight_global_scale", "input_scale", "input_global_scale", "qzeros", "scales", "g_idx", "scale", "k_scale",
    "v_scale", "q_scale", "biases", "global_scale",
})  # fmt: skip
_FUSED = re.compile(r"(.*)_(blocks|scales)")
_PACKED_BITS = 32


class StoredKind(NamedTuple):
    """One kind, and what it holds."""

    kind: TensorKind
    tally: TensorTally
    format: str
    """The format of the weight, also for the scales beside it."""
    parameters: int
    """Weights in one tensor of the kind; none for scales and zero points."""


@dataclass
class _Module:
    """A weight and what belongs to it."""

    roles: dict[str, TensorKind] = field(default_factory=dict)


def declared_method(config: Mapping[str, Any]) -> str | None:
    """The method that config.json names."""
    if word_packing(config) is not None:
        return packings.WORDS
    method = _declaration(config).get("quant_method")
    return method if isinstance(method, str) else None


def packed_bits(config: Mapping[str, Any]) -> int | None:
    """Bits of one weight inside a packed integer, as config.json declares."""
    declaration = _declaration(config)
    for bits in (declaration.get("bits"), *(_of(group, "weights", "num_bits") for group in _groups(declaration))):
        if type(bits) is int and 1 <= bits <= 16:
            return bits
    return None


def stored_formats(stock: Mapping[TensorKind, TensorTally], config: Mapping[str, Any]) -> Iterator[StoredKind]:
    modules: dict[str, _Module] = {}
    homes: list[tuple[TensorKind, str, _Module]] = []
    for kind in stock:
        home, role = _home(kind)
        module = modules.setdefault(home, _Module())
        module.roles.setdefault(role, kind)
        homes.append((kind, role, module))
    words, bits, method = word_packing(config), packed_bits(config), declared_method(config)
    named: dict[int, tuple[str, int | Fraction]] = {}
    for kind, role, module in homes:
        if id(module) not in named:
            packed = words and _in_words(kind.name.rpartition(".")[0], module.roles, words)
            named[id(module)] = packed or _format(module.roles, bits or 4, method)
        label, per_element = named[id(module)]
        if role in COMPANIONS:
            yield StoredKind(kind, stock[kind], label or kind.dtype, 0)
        elif role in _PAYLOADS and label:
            yield StoredKind(kind, stock[kind], label, int(kind.elements * per_element))
        else:
            yield StoredKind(kind, stock[kind], kind.dtype, kind.elements)


_PAYLOADS = frozenset({"weight", "weight_packed", "qweight", "blocks"})


def _home(kind: TensorKind) -> tuple[str, str]:
    """The module that a kind belongs to, and its role there."""
    if fused := _FUSED.fullmatch(kind.name):
        return fused[1], fused[2]
    module, _, role = kind.name.rpartition(".")
    return module, role


def undecoded_words(stock: Mapping[TensorKind, TensorTally], stored: Iterable[StoredKind]) -> bool:
    """Whether words with scales beside them are there, and nothing says how many bits a weight has."""
    scaled = {kind.name.rpartition(".")[0] for kind in stock if kind.name.endswith(".scales")}
    return any(
        own.format == _WORD and own.kind.name.endswith(".weight") and own.kind.name.rpartition(".")[0] in scaled
        for own in stored
    )


_WORD = "U32"


def _in_words(module: str, roles: Mapping[str, TensorKind], words: WordPacking) -> tuple[str, Fraction] | None:
    """None of what is not packed so, or not as declared."""
    weight, scales = roles.get("weight"), roles.get("scales")
    if weight is None or scales is None or weight.dtype != _WORD or not weight.shape or not scales.shape:
        return None
    if weight.shape[:-1] != scales.shape[:-1] or not scales.shape[-1] or weight.shape[-1] % scales.shape[-1]:
        return None
    return words.format_of(module, weight.shape[-1] // scales.shape[-1], affine=scales.dtype != "U8")


def _format(roles: Mapping[str, TensorKind], bits: int, method: str | None) -> tuple[str, int]:
    """The module's format and the weights in one stored element; an empty format is the stored type itself."""
    if packed := roles.get("qweight"):
        return _gptq_or_awq(packed, roles.get("scales"), bits, method)
    if packed := roles.get("weight_packed"):
        if packed.dtype == "I32":
            return _packed_int(packed, roles.get("weight_scale"), bits)
        return _four_bit_float(roles.get("weight_scale")), 2
    if "blocks" in roles:
        return "MXFP4", 2
    weight = roles.get("weight")
    scale = roles.get("weight_scale_inv") or roles.get("weight_scale") or roles.get("scale")
    if weight is None or scale is None:
        return "", 1
    if weight.dtype in ("U8", "I8") and scale.dtype in ("F8_E4M3", "F8_E8M0", "U8"):
        return _four_bit_float(scale), 2
    if weight.dtype == "F4":
        return _four_bit_float(scale), 1
    if weight.dtype.startswith("F8_"):
        return _eight_bit_float(weight, scale), 1
    return ("INT8", 1) if weight.dtype == "I8" else ("", 1)


def _packed_int(packed: TensorKind, scale: TensorKind | None, bits: int) -> tuple[str, int]:
    per_element = _PACKED_BITS // bits
    group = _ratio(packed.shape[-1:], scale.shape[-1:] if scale else (), per_element)
    return f"INT{bits}{group}", per_element


def _gptq_or_awq(packed: TensorKind, scales: TensorKind | None, bits: int, method: str | None) -> tuple[str, int]:
    """Both are [in, out] with scales [in / group, out]; GPTQ packs along `in`, AWQ along `out`."""
    per_element = _PACKED_BITS // bits
    is_awq = method == "awq"
    group = _ratio(packed.shape[:1], scales.shape[:1] if scales else (), 1 if is_awq else per_element)
    return f"{'AWQ' if is_awq else 'GPTQ'}_INT{bits}{group}", per_element


def _ratio(elements: tuple[int, ...], scales: tuple[int, ...], per_element: int) -> str:
    if not elements or not scales or not scales[0] or elements[0] * per_element % scales[0]:
        return ""
    return f"_G{elements[0] * per_element // scales[0]}"


def _four_bit_float(scale: TensorKind | None) -> str:
    """NVFP4 has a float8 scale for 16 weights, MXFP4 a power of two for 32."""
    return "NVFP4" if scale is not None and scale.dtype == "F8_E4M3" else "MXFP4"


def _eight_bit_float(weight: TensorKind, scale: TensorKind) -> str:
    if len(scale.shape) < 2 or scale.shape[-1] < 1 or len(weight.shape) < 2 or scale.elements == weight.shape[0]:
        return "FP8"
    columns, blocks = weight.shape[-1], scale.shape[-1]
    return f"FP8_B{columns // blocks}" if columns % blocks == 0 else "FP8_BLOCK"


def _declaration(config: Mapping[str, Any]) -> Mapping[str, Any]:
    for holder in (config, config.get("text_config")):
        quant_config = holder.get("quantization_config") if isinstance(holder, Mapping) else None
        if isinstance(quant_config, Mapping):
            return quant_config
    return {}


def _groups(declaration: Mapping[str, Any]) -> list[Any]:
    groups = declaration.get("config_groups")
    return list(groups.values())[:16] if isinstance(groups, Mapping) else []


def _of(value: Any, *path: str) -> Any:
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value
