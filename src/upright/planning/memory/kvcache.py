"""Attention layers + cache type + engine -> bytes a token, exactly.

Multi-head latent attention keeps one compressed vector a token and layer, whatever the number of heads: this is the
term that calculators miss by 25 times. Recurrent layers keep a recurrent state per sequence, windows a
bounded number of tokens. How an engine packs an entry is a row of the catalogue's layouts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import NamedTuple

from upright.base.errors import UsageError
from upright.facts.records.model import (
    Architecture,
    Attention,
    CompressedAttention,
    GqaAttention,
    LinearAttention,
    MlaAttention,
    SharedAttention,
)
from upright.planning.memory.block_pool import Pages, pages_of
from upright.planning.memory.layouts import Storage, compressor_state_bytes, layer_state

# Bytes of one value. Block types of ggml: bytes of a block over the 32 values in it (ggml-common.h).
VALUE_BYTES: dict[str, Fraction] = {
    "f32": Fraction(4),
    "f16": Fraction(2),
    "bf16": Fraction(2),
    "bfloat16": Fraction(2),
    "auto": Fraction(2),
    "fp8": Fraction(1),
    "fp8_e4m3": Fraction(1),
    "fp8_e5m2": Fraction(1),
    "q8_0": Fraction(34, 32),
    "q6_0": Fraction(26, 32),
    "q5_1": Fraction(24, 32),
    "q5_0": Fraction(22, 32),
    "q4_1": Fraction(20, 32),
    "q4_0": Fraction(18, 32),
    "iq4_nl": Fraction(18, 32),
}
PACKED_SPARSE = "fp8_ds_mla"
CACHE_TYPES = (*VALUE_BYTES, PACKED_SPARSE)


BATCHED_TOKENS = 8192
"""Tokens that are computed at once unless somebody says otherwise."""


class WindowLayers(NamedTuple):
    """Layers that keep at most `tokens` tokens of a sequence."""

    tokens: int
    bytes_per_token: int


class CachedLayers(NamedTuple):
    """Layers that keep a token alike."""

    layers: int
    token_bytes: Fraction
    """Of one layer, in one copy."""
    heads: int | None = None
    """KV heads that tensor parallelism can divide; None if every rank needs all of it."""
    window_tokens: int | None = None
    """None if all tokens are kept."""

    def share(self, tensor: int) -> Fraction:
        """The part that each of so many ranks holds."""
        return Fraction(1) if self.heads is None else Fraction(-(-self.heads // tensor), self.heads)


class CacheShape(NamedTuple):
    """One copy of the cache: what grows with every token, what is bounded, and what a sequence costs at once."""

    bytes_per_token: Fraction
    bytes_per_state: int
    windows: tuple[WindowLayers, ...]
    formula: str
    heads_shared: int | None
    """KV heads that tensor parallelism can divide; None if every rank needs all of it (MLA)."""
    unknown: tuple[str, ...] = ()
    """What the headers do not say, so that the figure is a lower bound."""
    states_kept: int = 1
    """States that the engine keeps of each sequence."""
    pool_share: Fraction | None = None
    """Tokens of the windows' own pool for each token of the full one; None if windows are held by sequence."""
    growing_layers: int = 0
    """Layers whose cache grows."""
    state_layers: int = 0
    """Layers that keep a recurrent state."""
    latent: bool = False
    """Whether the growing part is latent vectors, of which every rank keeps a copy."""
    in_flight_tokens: int = 0
    """Tokens beside each window that a request is admitted with."""
    pages: Pages | None = None
    """How the engine divides its pool, where groups of unequal pages share it."""
    kinds: tuple[CachedLayers, ...] = ()
    """What keeps tokens, kind by kind."""

    def sequence_bytes(self, tokens: int) -> int:
        """One sequence of this length."""
        windowed = sum(min(tokens, window.tokens) * window.bytes_per_token for window in self.windows)
        return _whole(tokens * self.bytes_per_token) + windowed + self.bytes_per_state

    @property
    def window_bytes(self) -> int:
        """Windows of one sequence once they are full."""
        return sum(window.tokens * window.bytes_per_token for window in self.windows)

    @property
    def bounded_bytes(self) -> int:
        """What a long sequence takes beside the part that grows."""
        return self.bytes_per_state + self.window_bytes

    @property
    def figure(self) -> int | float:
        """Bytes a token as a record carries them: whole where they are whole."""
        return number(self.bytes_per_token)


@dataclass
class _Sum:
    """What the layers have in common, as they are added up."""

    grows: Fraction = Fraction(0)
    states: int = 0
    states_kept: int = 1
    windows: list[WindowLayers] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    growing_layers: int = 0
    state_layers: int = 0
    kinds: list[CachedLayers] = field(default_factory=list)


def cache_shape(
    architecture: Architecture,
    dtype: str,
    *,
    storage: Storage | None = None,
    window_slack_tokens: int = 0,
    draft_layers: int = 0,
    batched_tokens: int = BATCHED_TOKENS,
    stages: int = 1,
) -> CacheShape:
    """One copy, exactly. `window_slack_tokens` is what the engine keeps beyond a window (llama.cpp: a ubatch).

    Draft layers are of the main model's first kind: an EAGLE-3 MLA draft adds one layer to Kimi's 61.
    """
    held = storage or Storage()
    _value_bytes(dtype) if dtype != PACKED_SPARSE else None
    total = _Sum()
    keeps, later = held.window_row(architecture.name), stages - 1
    for kind in _with_draft(architecture.attention, draft_layers):
        if isinstance(kind, LinearAttention):
            _add_state(total, kind, held)
        elif isinstance(kind, CompressedAttention):
            _add_compressed(total, kind, dtype, held, window_slack_tokens)
        elif isinstance(kind, SharedAttention):
            total.words.append(f"{kind.layers} layers that read another layer's cache")
        else:
            _add(total, kind, dtype, held, window_slack_tokens, keeps.kept)
    return CacheShape(
        bytes_per_token=total.grows,
        bytes_per_state=total.states,
        windows=tuple(total.windows),
        formula="; ".join(total.words),
        heads_shared=_heads_shared(architecture.attention),
        unknown=tuple(total.unknown),
        states_kept=total.states_kept,
        growing_layers=total.growing_layers,
        state_layers=total.state_layers,
        latent=any(isinstance(kind, MlaAttention | CompressedAttention) for kind in architecture.attention),
        pool_share=keeps.pool_share if total.windows else None,
        in_flight_tokens=(keeps.in_flight_batches + later) * batched_tokens if keeps.in_flight_batches else 0,
        pages=_pages(_with_draft(architecture.attention, draft_layers), dtype, held, batched_tokens, later),
        kinds=tuple(total.kinds),
    )


def bounded_shapes(
    architecture: Architecture, dtype: str, *, storage: Storage | None = None
) -> tuple[CacheShape, CacheShape | None]:
    """The least and the most of a model that is not understood; None where nothing bounds it."""
    shapes = []
    for kinds in (architecture.attention_at_least, architecture.attention_at_most):
        changed = architecture.model_copy(update={"attention": kinds or ()})
        shapes.append(None if kinds is None else cache_shape(changed, dtype, storage=storage))
    return shapes[0] or cache_shape(architecture.model_copy(update={"attention": ()}), dtype), shapes[1]


def rank_share(shape: CacheShape, tensor: int, decode_context: int) -> Fraction:
    """The part of one copy that each rank holds: MLA is replicated over ranks, heads are divided, DCP divides both.

    The ranks of a DCP group hold the same heads, so that heads are divided over groups: together never less than one
    copy.
    """
    if shape.heads_shared is None:
        return Fraction(1, decode_context)
    return Fraction(-(-shape.heads_shared // (tensor // decode_context)), shape.heads_shared * decode_context)


def copies(shape: CacheShape, tensor: int, decode_context: int) -> int:
    """How often the ranks together hold the same token."""
    return max(1, int(rank_share(shape, tensor, decode_context) * tensor))


def number(fraction: Fraction) -> int | float:
    return int(fraction) if fraction.denominator == 1 else float(fraction)


def _add(
    total: _Sum, kind: MlaAttention | GqaAttention, dtype: str, held: Storage, slack: int, keeps_windows: bool
) -> None:
    layer_bytes, formula = _mla_bytes(kind, dtype, held) if isinstance(kind, MlaAttention) else _gqa_bytes(kind, dtype)
    index, index_formula = _index_bytes(kind, dtype, held)
    heads = kind.kv_heads if isinstance(kind, GqaAttention) else None
    if kind.window_tokens is not None and keeps_windows:
        windowed = _whole(kind.layers * layer_bytes)
        total.windows.append(WindowLayers(kind.window_tokens + slack, windowed))
        total.kinds.append(CachedLayers(kind.layers, layer_bytes, heads, kind.window_tokens))
        total.words.append(f"{formula} = {windowed:,} B, {kind.window_tokens} tokens at most")
        return
    grows = kind.layers * (layer_bytes + index)
    total.grows += grows
    total.growing_layers += kind.layers
    total.kinds.append(CachedLayers(kind.layers, layer_bytes + index, heads))
    whole = " (windows are kept whole)" if kind.window_tokens is not None else ""
    total.words.append(f"{formula}{index_formula} = {number(grows):,} B{whole}")


def _add_state(total: _Sum, kind: LinearAttention, held: Storage) -> None:
    state, formula = layer_state(kind, held)
    total.states += kind.layers * (state or 0)
    total.state_layers += kind.layers
    row = held.state_row(kind)
    total.states_kept = max(total.states_kept, row.states if row else 1)
    total.words.append(f"{kind.layers} recurrent layers: {formula}")
    if state is None:
        total.unknown.append("size of the recurrent state")


def _pages(attention: Sequence[Attention], dtype: str, held: Storage, batched_tokens: int, later: int) -> Pages | None:
    compressed = [kind for kind in attention if isinstance(kind, CompressedAttention)]
    if not compressed:
        return None
    indexed = next((kind for kind in compressed if kind.indexer_head_dim), compressed[0])
    entry, index = _entry_bytes(compressed[0], dtype, held), _index_bytes(indexed, dtype, held)[0]
    return pages_of(attention, dtype, held, entry, index, batched_tokens, later)


def _entry_bytes(kind: CompressedAttention, dtype: str, held: Storage) -> Fraction:
    row = held.row(f"compressed-{kind.layout}", dtype)
    return Fraction(row.entry_bytes) if row and row.entry_bytes else kind.head_dim * _value_bytes(dtype)


def _add_compressed(total: _Sum, kind: CompressedAttention, dtype: str, held: Storage, slack: int) -> None:
    entry = _entry_bytes(kind, dtype, held)
    windowed = _whole(kind.layers * entry)
    total.windows.append(WindowLayers(kind.window_tokens + slack, windowed))
    total.kinds.append(CachedLayers(kind.layers, entry, None, kind.window_tokens))
    formula = f"{kind.layers} layers x {number(entry)} B in a window of {kind.window_tokens}"
    if kind.ratio:
        index, index_words = _index_bytes(kind, dtype, held)
        grows = kind.layers * (entry + index) / kind.ratio
        total.grows += grows
        total.kinds.append(CachedLayers(kind.layers, grows / kind.layers))
        formula += f", and one entry of {number(entry)} B{index_words} for {kind.ratio} tokens = {number(grows):,} B"
        compressor = held.row("compressor", dtype)
        if compressor is not None and compressor.state_dtype == "unknown":
            total.unknown.append("size of the compressor's state in this engine")
        else:
            total.states += compressor_state_bytes(kind)
    total.words.append(formula)


def _with_draft(attention: Sequence[Attention], layers: int) -> Sequence[Attention]:
    for index, kind in enumerate(attention):
        if layers and not isinstance(kind, LinearAttention | SharedAttention):
            grown = kind.model_copy(update={"layers": kind.layers + layers})
            return (*attention[:index], grown, *attention[index + 1 :])
    return attention


def _gqa_bytes(kind: GqaAttention, dtype: str) -> tuple[Fraction, str]:
    element_bytes = _value_bytes(dtype if dtype != PACKED_SPARSE else "fp8")
    width = kind.kv_heads * (kind.key_head_dim + kind.value_head_dim)
    widths = f"({kind.key_head_dim} + {kind.value_head_dim})"
    return (
        width * element_bytes,
        f"{kind.layers} layers x {kind.kv_heads} KV heads x {widths} x {_words(element_bytes)}",
    )


def _mla_bytes(kind: MlaAttention, dtype: str, held: Storage) -> tuple[Fraction, str]:
    row = held.row("sparse-latent" if kind.sparse else "latent", dtype)
    if row is None:
        element_bytes = _value_bytes(dtype if dtype != PACKED_SPARSE else "fp8")
        packed = (kind.kv_lora_rank + kind.rope_head_dim) * element_bytes
        return packed, f"{kind.layers} layers x ({kind.kv_lora_rank} + {kind.rope_head_dim}) x {_words(element_bytes)}"
    scales = -(-kind.kv_lora_rank // row.scale_every) * row.scale_bytes if row.scale_every else 0
    rope = row.rope_bytes if row.rope_bytes is not None else 2 * kind.rope_head_dim
    packed = Fraction(kind.kv_lora_rank + scales + rope)
    return packed, f"{kind.layers} layers x ({kind.kv_lora_rank} fp8 + {scales} scales + {rope} B rope)"


def _index_bytes(
    kind: MlaAttention | GqaAttention | CompressedAttention, dtype: str, held: Storage
) -> tuple[Fraction, str]:
    if kind.indexer_head_dim is None:
        return Fraction(0), ""
    row = held.row("block-index" if isinstance(kind, GqaAttention) else "index", dtype)
    element_bytes = _value_bytes(dtype if dtype != PACKED_SPARSE else "fp8")
    if row is not None and row.value_bytes is not None:
        element_bytes = Fraction(row.value_bytes)
    key = kind.indexer_head_dim * element_bytes
    if row is not None and row.scale_every:
        key += -(-kind.indexer_head_dim // row.scale_every) * row.scale_bytes
    every = 1 if isinstance(kind, CompressedAttention) else kind.indexer_every_tokens
    shared = f" every {every} tokens" if every > 1 else ""
    return key / every, f" + {kind.layers} x {number(key)} B indexer key{shared}"


def _value_bytes(dtype: str) -> Fraction:
    if dtype not in VALUE_BYTES:
        raise UsageError(f"{dtype} is no cache type that can be planned", hint=f"one of {', '.join(CACHE_TYPES)}")
    return VALUE_BYTES[dtype]


def _words(value: Fraction) -> str:
    return f"{value} B" if value.denominator == 1 else f"{value.numerator}/{value.denominator} B"


def _whole(value: Fraction) -> int:
    return int(value) if value.denominator == 1 else int(value) + 1


def _heads_shared(attention: Sequence[Attention]) -> int | None:
    heads = [kind.kv_heads for kind in attention if isinstance(kind, GqaAttention)]
    if any(isinstance(kind, MlaAttention | CompressedAttention) for kind in attention) or not heads:
        return None
    return min(heads)
