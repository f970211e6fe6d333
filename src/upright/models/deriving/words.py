"""`quantization` of config.json -> how MLX packs each matrix into 32-bit words.

A matrix has its own group size, bits and mode where the map names its path, `false` where it is left alone, and else
the map's. What stands at no path and does not fit the map is read as MLX does it: the bits by the shapes.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any, NamedTuple

_WORD_BITS = 32
_BITS = (2, 3, 4, 5, 6, 8)
_LARGEST_GROUP = 1024
_SCALES = {"mxfp4": (4, 32), "nvfp4": (4, 16), "mxfp8": (8, 32)}
"""Bits and group of the modes whose scales are bytes: mlx_lm 0.32.2 utils.py infer_quant_config."""
_HALF_BITS, _BYTE_BITS = 16, 8


class Packed(NamedTuple):
    """How one matrix is packed."""

    mode: str
    bits: int
    group: int

    @property
    def label(self) -> str:
        return f"AFFINE_INT{self.bits}_G{self.group}" if self.mode == "affine" else self.mode.upper()

    @property
    def ratio(self) -> Fraction:
        """Words of a row by scales of it, which is all that shapes tell."""
        return Fraction(self.bits * self.group, _WORD_BITS)

    def bytes_of(self, rows: int, columns: int) -> int:
        """Words, and for each group a scale: with a bias, both in half precision, or one byte."""
        group_bits = 2 * _HALF_BITS if self.mode == "affine" else _BYTE_BITS
        return rows * (columns * self.bits // 8 + columns // self.group * group_bits // 8)


class WordPacking(NamedTuple):
    """The map."""

    usual: Packed
    own: Mapping[str, Packed | None]
    """By path; None for a matrix that is left alone."""

    def format_of(self, path: str, ratio: int, *, affine: bool) -> tuple[str, Fraction] | None:
        """Label, and weights in a word; None if nothing that is declared has so many words for a scale."""
        if not affine:
            modes = (Packed(mode, bits, group) for mode, (bits, group) in _SCALES.items())
            return next((_found(packed) for packed in modes if packed.ratio == ratio), None)
        for packed in (self.own.get(path), self.usual):
            if packed is not None and packed.mode == "affine" and packed.ratio == ratio:
                return _found(packed)
        bits = Fraction(ratio * _WORD_BITS, self.usual.group)
        return _found(Packed("affine", int(bits), self.usual.group)) if bits in _BITS else None


def word_packing(config: Mapping[str, Any]) -> WordPacking | None:
    """None if the configuration has no such map, or one that is not understood."""
    declared = config.get("quantization")
    usual = _packed(declared) if isinstance(declared, Mapping) else None
    if usual is None or not isinstance(declared, Mapping):
        return None
    own = {path: _packed(entry) for path, entry in declared.items() if isinstance(entry, Mapping) or entry is False}
    return WordPacking(usual, own)


def _packed(entry: Any) -> Packed | None:
    if not isinstance(entry, Mapping):
        return None
    mode, bits, group = entry.get("mode") or "affine", entry.get("bits"), entry.get("group_size")
    if type(bits) is not int or type(group) is not int or not 0 < group <= _LARGEST_GROUP:
        return None
    if mode == "affine":
        return Packed("affine", bits, group) if bits in _BITS else None
    return Packed(str(mode), bits, group) if _SCALES.get(mode) == (bits, group) else None


def _found(packed: Packed) -> tuple[str, Fraction]:
    return packed.label, Fraction(_WORD_BITS, packed.bits)
