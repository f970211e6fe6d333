"""Attention layers + cache type -> bytes a token, exactly.

Multi-head latent attention keeps one compressed vector a token and layer, whatever the number of heads: this is the
term that calculators miss by 25 times. Recurrent layers keep a state a sequence, windows a bounded number of tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from upright.errors import UsageError
from upright.records.model import (
    Architecture,
    Attention,
    CompressedAttention,
    GqaAttention,
    LinearAttention,
    MlaAttention,
)

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
    "q5_1": Fraction(24, 32),
    "q5_0": Fraction(22, 32),
    "q4_1": Fraction(20, 32),
    "q4_0": Fraction(18, 32),
    "iq4_nl": Fraction(18, 32),
}
PACKED_SPARSE = "fp8_ds_mla"
# Guard: fp8_ds_mla packs 512 fp8 values, four fp32 scales and 64 bf16 rotary values into 656 bytes, whatever the
# element type says (vllm/v1/attention/backends/mla/flashmla_sparse.py).
_SCALE_EVERY, _SCALE_BYTES, _ROPE_VALUE_BYTES = 128, 4, 2
CACHE_TYPES = (*VALUE_BYTES, PACKED_SPARSE)


@dataclass(frozen=True)
class Window:
    """Layers that keep at most `tokens` tokens of a sequence."""

    tokens: int
    bytes_per_token: int


@dataclass(frozen=True)
class CacheShape:
    """One copy of the cache: what grows with every token, what is bounded, and what a sequence costs at once."""

    bytes_per_token: int
    bytes_per_state: int
    windows: tuple[Window, ...]
    formula: str
    heads_shared: int | None
    """KV heads that tensor parallelism can divide; None if every rank needs all of it (MLA)."""
    unknown: tuple[str, ...] = ()
    """What the headers do not say, so that the figure is a lower bound."""

    def sequence_bytes(self, tokens: int) -> int:
        """One sequence of this length."""
        windowed = sum(min(tokens, window.tokens) * window.bytes_per_token for window in self.windows)
        return tokens * self.bytes_per_token + windowed + self.bytes_per_state

    @property
    def bounded_bytes(self) -> int:
        """What a long sequence takes beside the part that grows."""
        return self.bytes_per_state + sum(window.tokens * window.bytes_per_token for window in self.windows)


def cache_shape(
    architecture: Architecture, dtype: str, *, window_slack_tokens: int = 0, draft_layers: int = 0
) -> CacheShape:
    """One copy, exactly. `window_slack_tokens` is what the engine keeps beyond a window (llama.cpp: a ubatch).

    Draft layers are of the main model's first kind: an EAGLE-3 MLA draft adds one layer to Kimi's 61.
    """
    grows, states, windows, words, unknown = 0, 0, [], [], []
    for kind in _with_draft(architecture.attention, draft_layers):
        if isinstance(kind, LinearAttention):
            states += kind.layers * (kind.state_bytes or 0)
            words.append(f"{kind.layers} recurrent layers: a state a sequence, nothing a token")
            if kind.state_bytes is None:
                unknown.append("size of the recurrent state")
            continue
        if isinstance(kind, CompressedAttention):
            words.append(f"{kind.layers} layers of compressed attention, which are not counted")
            unknown.append("size of the compressed cache")
            continue
        layer_bytes, formula = _layer_bytes(kind, dtype)
        total = _whole(kind.layers * layer_bytes)
        if isinstance(kind, GqaAttention) and kind.window_tokens is not None:
            windows.append(Window(kind.window_tokens + window_slack_tokens, total))
            words.append(f"{formula} = {total:,} B, {kind.window_tokens} tokens at most")
        else:
            grows += total
            words.append(f"{formula} = {total:,} B")
    return CacheShape(
        bytes_per_token=grows,
        bytes_per_state=states,
        windows=tuple(windows),
        formula="; ".join(words),
        heads_shared=_heads_shared(architecture.attention),
        unknown=tuple(unknown),
    )


def rank_share(shape: CacheShape, tensor: int, decode_context: int) -> Fraction:
    """The part of one copy that each rank holds: MLA is replicated over ranks, heads are divided, DCP divides both."""
    if shape.heads_shared is None:
        held = Fraction(1)
    else:
        held = Fraction(max(1, -(-shape.heads_shared // tensor)), shape.heads_shared)
    return held / decode_context


def copies(shape: CacheShape, tensor: int, decode_context: int) -> int:
    """How often the ranks together hold the same token."""
    return max(1, int(rank_share(shape, tensor, decode_context) * tensor))


def _with_draft(attention: Sequence[Attention], layers: int) -> Sequence[Attention]:
    for index, kind in enumerate(attention):
        if layers and not isinstance(kind, LinearAttention):
            grown = kind.model_copy(update={"layers": kind.layers + layers})
            return (*attention[:index], grown, *attention[index + 1 :])
    return attention


def _layer_bytes(kind: Attention, dtype: str) -> tuple[Fraction, str]:
    if isinstance(kind, MlaAttention):
        return _mla_bytes(kind, dtype)
    assert isinstance(kind, GqaAttention)
    value = _value_bytes(dtype)
    width = kind.kv_heads * (kind.key_head_dim + kind.value_head_dim)
    widths = f"({kind.key_head_dim} + {kind.value_head_dim})"
    return width * value, f"{kind.layers} layers x {kind.kv_heads} KV heads x {widths} x {_words(value)}"


def _mla_bytes(kind: MlaAttention, dtype: str) -> tuple[Fraction, str]:
    if dtype == PACKED_SPARSE:
        scales = kind.kv_lora_rank // _SCALE_EVERY * _SCALE_BYTES
        packed = Fraction(kind.kv_lora_rank + scales + kind.rope_head_dim * _ROPE_VALUE_BYTES)
        formula = f"{kind.layers} layers x ({kind.kv_lora_rank} fp8 + {scales} scales + {kind.rope_head_dim} x 2 B rope"
    else:
        packed = (kind.kv_lora_rank + kind.rope_head_dim) * _value_bytes(dtype)
        formula = f"{kind.layers} layers x ({kind.kv_lora_rank} + {kind.rope_head_dim}) x {_words(_value_bytes(dtype))}"
        if kind.indexer_head_dim is None:
            return packed, formula
        formula = (
            f"{kind.layers} layers x (({kind.kv_lora_rank} + {kind.rope_head_dim}) x {_words(_value_bytes(dtype))}"
        )
    if kind.indexer_head_dim is None:
        return packed, f"{formula})"
    # The indexer's key is always fp8 with one fp32 scale for every 128 values.
    indexer = kind.indexer_head_dim + -(-kind.indexer_head_dim // _SCALE_EVERY) * _SCALE_BYTES
    return packed + indexer, f"{formula} + {indexer} B indexer key)"


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
    if any(isinstance(kind, MlaAttention) for kind in attention) or not heads:
        return None
    return min(heads)
