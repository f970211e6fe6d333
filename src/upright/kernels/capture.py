"""A way through an engine + shapes -> the call of the engine's own launcher.

The arguments are descriptions, not tensors: {"tensor": "bfloat16", "shape": [...], "strides": [...]}, {"dtype": ...},
{"tl": ...} for triton.language, {"name": ...} for a name in the launcher's module, {"dict": ...}, or a plain value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from upright.errors import EngineError
from upright.kernels.extract import Extracted, extract

Arguments = dict[str, Any]
FP8 = "float8_e4m3fn"
BATCH, TOKENS, SLOTS, PAGE, SPLITS = 8, 2048, 65536, 64, 8


@dataclass(frozen=True)
class Shapes:
    """What the planned model makes of one attention layer, on one device."""

    heads: int
    """Query heads on this device."""
    kv_heads: int
    """Key and value heads on this device."""
    key_dim: int
    """Width of a key as the kernel sees it."""
    value_dim: int
    """Width of a value as the kernel sees it."""
    dtype: str = "bfloat16"
    """Activations."""
    kv_dtype: str = "bfloat16"
    """The stored cache."""
    window_tokens: int | None = None
    """Sliding window; None for none."""

    def __str__(self) -> str:
        cache = f"{self.kv_heads} kv head{'s' if self.kv_heads != 1 else ''}"
        return f"head {self.key_dim}/{self.value_dim}, {self.heads} heads, {cache}, KV {self.kv_dtype}"


@dataclass(frozen=True)
class Way:
    """One way through an engine to its Triton kernels."""

    name: str
    engine: str
    files: tuple[str, ...]
    """Where the launcher lives, newest layout first."""
    launcher: str
    arguments: Callable[[Shapes], Arguments]
    why: str
    """What the engine uses it for."""
    tile: tuple[tuple[str, ...], tuple[str, ...]] | None = None
    """The constants that a search varies: those of the tile's rows, those of its columns; None if it cannot."""


@dataclass(frozen=True)
class Call:
    """A launcher, extracted, with its arguments: all that is needed to capture its launches."""

    way: Way
    extracted: Extracted
    arguments: Arguments
    shapes: Shapes


def call(way: Way, root: Path, shapes: Shapes, texts: Mapping[Path, str] | None = None) -> Call:
    """The call that this engine version's launcher takes."""
    return called(way, extract(root, find(way, root), way.launcher, texts), shapes)


def called(way: Way, extracted: Extracted, shapes: Shapes) -> Call:
    """Parameters that this version does not have are left out; one that nobody knows is an error by name."""
    known = way.arguments(shapes)
    lacking = [item.name for item in extracted.parameters if item.required and item.name not in known]
    if lacking:
        raise EngineError(
            f"{way.launcher} asks for {', '.join(lacking)}, which is not known here",
            hint="this engine version is newer than the kernel checks of this upright",
        )
    taken = {item.name for item in extracted.parameters}
    return Call(way, extracted, {name: value for name, value in known.items() if name in taken}, shapes)


def find(way: Way, root: Path) -> Path:
    for file in way.files:
        if (root / file).is_file():
            return root / file
    raise EngineError(f"{way.engine} in {root} has none of: {', '.join(way.files)}")


def way(engine: str, name: str) -> Way:
    for item in WAYS:
        if (item.engine, item.name) == (engine, name):
            return item
    known = ", ".join(item.name for item in WAYS if item.engine == engine)
    raise EngineError(f"no way {name} through {engine}", hint=f"known: {known or 'vllm and sglang only'}")


def tensor(dtype: str, *shape: int, strides: tuple[int, ...] | None = None) -> Arguments:
    spec: Arguments = {"tensor": dtype, "shape": list(shape)}
    return spec | ({"strides": list(strides)} if strides else {})


def _sglang_pool(shapes: Shapes) -> tuple[Arguments, Arguments]:
    """Key and value buffers; with one latent vector the value is a view of the key."""
    heads, key, value = shapes.kv_heads, shapes.key_dim, shapes.value_dim
    keys = tensor(shapes.kv_dtype, SLOTS, heads, key)
    latent = heads == 1 and key > value
    strides = (heads * key, key, 1) if latent else None
    return keys, tensor(shapes.kv_dtype, SLOTS, heads, value, strides=strides)


def _sglang_extend(shapes: Shapes) -> Arguments:
    keys, values = _sglang_pool(shapes)
    return {
        "q_extend": tensor(shapes.dtype, TOKENS, shapes.heads, shapes.key_dim),
        "k_extend": tensor(shapes.dtype, TOKENS, shapes.kv_heads, shapes.key_dim),
        "v_extend": tensor(shapes.dtype, TOKENS, shapes.kv_heads, shapes.value_dim),
        "o_extend": tensor(shapes.dtype, TOKENS, shapes.heads, shapes.value_dim),
        "k_buffer": keys,
        "v_buffer": values,
        "qo_indptr": tensor("int32", BATCH + 1),
        "kv_indptr": tensor("int32", BATCH + 1),
        "kv_indices": tensor("int64", SLOTS),
        "custom_mask": None,
        "is_causal": True,
        "mask_indptr": None,
        "max_len_extend": TOKENS,
        "k_scale": 1.0,
        "v_scale": 1.0,
        "sliding_window_size": shapes.window_tokens or -1,
    }


def _sglang_decode(shapes: Shapes) -> Arguments:
    keys, values = _sglang_pool(shapes)
    return {
        "q": tensor(shapes.dtype, BATCH, shapes.heads, shapes.key_dim),
        "k_buffer": keys,
        "v_buffer": values,
        "o": tensor(shapes.dtype, BATCH, shapes.heads, shapes.value_dim),
        "kv_indptr": tensor("int32", BATCH + 1),
        "kv_indices": tensor("int64", SLOTS),
        "attn_logits": tensor("float32", BATCH, shapes.heads, SPLITS, shapes.value_dim),
        "attn_lse": tensor("float32", BATCH, shapes.heads, SPLITS),
        "num_kv_splits": tensor("int32", BATCH),
        "max_kv_splits": SPLITS,
        "sm_scale": 0.1,
        "k_scale": 1.0,
        "v_scale": 1.0,
        "has_mla": shapes.kv_heads == 1 and shapes.key_dim > shapes.value_dim,
    }


def _sglang_prefill(shapes: Shapes) -> Arguments:
    return {
        "q": tensor(shapes.dtype, TOKENS, shapes.heads, shapes.key_dim),
        "k": tensor(shapes.dtype, TOKENS, shapes.kv_heads, shapes.key_dim),
        "v": tensor(shapes.dtype, TOKENS, shapes.kv_heads, shapes.value_dim),
        "o": tensor(shapes.dtype, TOKENS, shapes.heads, shapes.value_dim),
        "b_start_loc": tensor("int32", BATCH),
        "b_seq_len": tensor("int32", BATCH),
        "max_input_len": TOKENS,
        "is_causal": False,
    }


def _vllm_mla_decode(shapes: Shapes) -> Arguments:
    pages, key = SLOTS // PAGE, shapes.key_dim
    cache = (PAGE * key, key, key, 1)
    return {
        "q": tensor(shapes.dtype, BATCH, shapes.heads, key),
        "k_buffer": tensor(shapes.kv_dtype, pages, PAGE, 1, key, strides=cache),
        "v_buffer": tensor(shapes.kv_dtype, pages, PAGE, 1, shapes.value_dim, strides=cache),
        "o": tensor(shapes.dtype, BATCH, shapes.heads, shapes.value_dim),
        "lse": tensor(shapes.dtype, BATCH, shapes.heads),
        "req_to_token": tensor("int32", BATCH, pages),
        "b_seq_len": tensor("int32", BATCH),
        "attn_logits": tensor("float32", BATCH, shapes.heads, SPLITS, shapes.value_dim + 1),
        "num_kv_splits": SPLITS,
        "sm_scale": 0.1,
        "page_size": PAGE,
        "k_scale": tensor("float32"),
        "v_scale": tensor("float32"),
        "is_mla": True,
    }


def _vllm_unified(shapes: Shapes, *, decode: bool) -> Arguments:
    pages, tokens = SLOTS // PAGE, BATCH if decode else TOKENS
    fp8 = shapes.kv_dtype == FP8
    padded = 1 << (shapes.key_dim - 1).bit_length()
    segments: Arguments = {}
    if decode:
        segments = {
            "seq_threshold_3D": 4 * BATCH,
            "num_par_softmax_segments": 16,
            "softmax_segm_output": tensor("float32", BATCH, shapes.heads, 16, padded),
            "softmax_segm_max": tensor("float32", BATCH, shapes.heads, 16),
            "softmax_segm_expsum": tensor("float32", BATCH, shapes.heads, 16),
        }
    if fp8:
        segments["kv_quant_mode"] = {"name": "KVQuantMode.FP8_PER_TENSOR"}
    return {
        "q": tensor(shapes.dtype, tokens, shapes.heads, shapes.key_dim),
        "k": tensor(shapes.kv_dtype, pages, PAGE, shapes.kv_heads, shapes.key_dim),
        "v": tensor(shapes.kv_dtype, pages, PAGE, shapes.kv_heads, shapes.value_dim),
        "out": tensor(shapes.dtype, tokens, shapes.heads, shapes.value_dim),
        "cu_seqlens_q": tensor("int32", BATCH + 1),
        "max_seqlen_q": 1 if decode else TOKENS,
        "seqused_k": tensor("int32", BATCH),
        "max_seqlen_k": SLOTS,
        "softmax_scale": 0.1,
        "causal": True,
        "window_size": [(shapes.window_tokens or 0) - 1, 0] if shapes.window_tokens else [-1, -1],
        "block_table": tensor("int32", BATCH, pages),
        "softcap": 0,
        "q_descale": None,
        "k_descale": tensor("float32", BATCH, shapes.kv_heads) if fp8 else None,
        "v_descale": tensor("float32", BATCH, shapes.kv_heads) if fp8 else None,
        **segments,
    }


def _vllm_unified_decode(shapes: Shapes) -> Arguments:
    return _vllm_unified(shapes, decode=True)


def _vllm_unified_prefill(shapes: Shapes) -> Arguments:
    return _vllm_unified(shapes, decode=False)


_SGLANG_OLD, _SGLANG_NEW = "sglang/srt/layers/attention/triton_ops", "sglang/kernels/ops/attention"
_VLLM_OPS = ("vllm/v1/attention/ops", "vllm/attention/ops")


def _sglang_files(name: str) -> tuple[str, ...]:
    return f"{_SGLANG_NEW}/{name}", f"{_SGLANG_OLD}/{name}"


def _vllm_files(name: str) -> tuple[str, ...]:
    return tuple(f"{folder}/{name}" for folder in _VLLM_OPS)


_EXTEND = Way(
    name="extend",
    engine="sglang",
    files=_sglang_files("extend_attention.py"),
    launcher="extend_attention_fwd",
    arguments=_sglang_extend,
    why="prefill with cached prefix",
    tile=(("BLOCK_M",), ("BLOCK_N", "BLOCK_N_PREFIX")),
)
_UNIFIED = Way(
    name="unified-prefill",
    engine="vllm",
    files=_vllm_files("triton_unified_attention.py"),
    launcher="unified_attention",
    arguments=_vllm_unified_prefill,
    why="TRITON_ATTN prefill",
)
WAYS: tuple[Way, ...] = (
    _EXTEND,
    Way(
        name="decode",
        engine="sglang",
        files=_sglang_files("decode_attention.py"),
        launcher="decode_attention_fwd",
        arguments=_sglang_decode,
        why="decode",
        tile=(("BLOCK_H",), ("BLOCK_N",)),
    ),
    Way(
        name="prefill",
        engine="sglang",
        files=_sglang_files("prefill_attention.py"),
        launcher="context_attention_fwd",
        arguments=_sglang_prefill,
        why="attention without a cache (vision)",
        tile=(("BLOCK_M",), ("BLOCK_N",)),
    ),
    Way(
        name="mla-decode",
        engine="vllm",
        files=_vllm_files("triton_decode_attention.py"),
        launcher="decode_attention_fwd",
        arguments=_vllm_mla_decode,
        why="TRITON_MLA decode",
        tile=(("BLOCK_H",), ("BLOCK_N",)),
    ),
    _UNIFIED,
    replace(_UNIFIED, name="unified-decode", arguments=_vllm_unified_decode, why="TRITON_ATTN decode"),
)
