"""How an engine lays out the KV cache, by its version and GPU architecture, from the catalogue's rows."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from functools import cache
from typing import NamedTuple, cast

from upright.facts import catalog
from upright.facts.catalog.rows.layout import LayoutRow
from upright.facts.records.model import CompressedAttention, LinearAttention

_TYPES = {"float32": 4, "bfloat16": 2, "float16": 2, "model": 2}
_FP32 = 4
# DeepSeek V4's compressor keeps the group that is being compressed, twice over where groups overlap (ratio 4), V4.1's a
# ring of 8 rows: keys and scores in fp32 (vllm/models/deepseek_v4/compressor.py:140-196, deepseek_v41/compressor.py).
_OVERLAPPING, _RING_ROWS = 4, 8


class KeptWindows(NamedTuple):
    """Whether an engine keeps windows of an architecture as windows, and how it divides memory for them."""

    kept: bool
    pool_share: Fraction | None = None
    in_flight_batches: int = 0
    """Batches beside the window that a request is admitted with."""


class Storage(NamedTuple):
    """Who stores the cache, and on what."""

    engine: str = ""
    version: str | None = None
    capability: str | None = None

    def row(self, piece: str, cache_type: str) -> LayoutRow | None:
        """None if the piece is stored in the cache type's own values."""
        return next(self._rows(piece, cache_type), None)

    def window_row(self, architecture: str) -> KeptWindows:
        rows = list(self._rows("window", "*"))
        if not rows:
            return KeptWindows(kept=True)
        for row in rows:
            if row.only is None or architecture in row.only:
                share = Fraction(row.pool_share).limit_denominator(1000) if row.pool_share else None
                return KeptWindows(kept=True, pool_share=share, in_flight_batches=row.in_flight_batches or 0)
        return KeptWindows(kept=False)

    def state_row(self, kind: LinearAttention) -> LayoutRow | None:
        for row in self._rows("state", "*"):
            if (not row.rules or kind.rule in row.rules) and row.gate_bounded in (None, kind.gate_bounded):
                return row
        return None

    def _rows(self, piece: str, cache_type: str) -> Iterator[LayoutRow]:
        """The engine's own first, then what engines have in common."""
        for engine in dict.fromkeys((self.engine, "*")):
            for row in _rows(piece):
                if row.holds(engine, self.version, self.capability, cache_type):
                    yield row


def layer_state(kind: LinearAttention, storage: Storage) -> tuple[int | None, str]:
    """Bytes of one layer's state of a sequence, and the words for it; None if its size is not known."""
    row = storage.state_row(kind)
    if kind.state_elements is None or kind.conv_elements is None:
        return kind.state_bytes, "recurrent state per sequence, nothing per token"
    if row is None:
        return _FP32 * (
            kind.state_elements + kind.conv_elements
        ), "recurrent state per sequence in float32, nothing per token"
    dtype = row.state_dtype or "float32"
    if kind.state_dtype is not None and not row.ignores_config:
        dtype = kind.state_dtype
    conv = row.conv_bytes or _FP32
    size = kind.state_elements * _TYPES[dtype] + kind.conv_elements * conv
    parts = f"{kind.state_elements:,} x {_TYPES[dtype]} B" if kind.state_elements else ""
    parts += f"{' + ' if parts else ''}{kind.conv_elements:,} x {conv} B" if kind.conv_elements else ""
    return size, f"a state of {parts} a sequence, nothing a token"


def compressor_state_bytes(kind: CompressedAttention) -> int:
    """Bytes of the compressors' states of a sequence, all layers."""
    if kind.layout == "v41":
        rows = _RING_ROWS if kind.ratio > 1 else 0
        return kind.layers * rows * 2 * kind.head_dim * _FP32
    twice = 2 if kind.ratio == _OVERLAPPING else 1
    width = 2 * twice * (kind.head_dim + (kind.indexer_head_dim or 0))
    return kind.layers * twice * kind.ratio * width * _FP32


@cache
def _rows(piece: str) -> tuple[LayoutRow, ...]:
    rows = cast("tuple[LayoutRow, ...]", tuple(catalog.rows("layouts").values()))
    return tuple(row for row in rows if row.piece == piece)
