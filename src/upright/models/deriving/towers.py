"""The configuration of a vision or audio tower -> how many weights it has, to a few per cent.

Towers are transformers with patches before them and a projection behind; how the projection is built differs more than
its size does. Their share of a large model is a hundredth, so the figure is marked as estimated and no more is tried.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from upright.models.deriving.shelf import ShelfTensor

SIGHT = ("vision_config", "visual_config", "visual", "vit_config", "vision_tower_config")
SOUND = ("audio_config", "speech_config", "sound_config")
_DEPTHS = ("depth", "num_hidden_layers", "num_layers", "vt_num_hidden_layers", "layers", "encoder_layers", "n_layers")
_WIDTHS = ("embed_dim", "hidden_size", "vt_hidden_size", "width", "d_model")
_INNER = ("intermediate_size", "vt_intermediate_size", "mlp_dim", "encoder_ffn_dim", "ffn_dim")
_MERGES = ("spatial_merge_size", "merge_size")
_LARGEST = 2**20


def tower_tensors(config: Mapping[str, Any], hidden: int) -> tuple[ShelfTensor, ...]:
    """One tensor a tower, with the number of its weights as its shape; none for a tower that does not say its size."""
    tensors = []
    for name in (*SIGHT, *SOUND):
        part = config.get(name)
        if not isinstance(part, Mapping):
            continue
        if count := _weights(part, hidden):
            tensors.append(ShelfTensor("vision", None, f"{name.removesuffix('_config')}.estimated", (count,)))
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
