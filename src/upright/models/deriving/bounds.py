"""Lower and upper bound of the KV cache where a configuration is not fully understood.

The most is every layer attending to everything with the widest heads that the file allows. The least depends on what is
not understood: keys of experts leave attention as it was read, keys of indexes and draft layers only add to it, a layer
of an unknown kind is left out. Any other key may make windows, recurrences or shared caches of layers: one vector of
one layer is certain where a model has heads; where windows are in sight, only if a layer keeps every token for certain.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from upright.facts.records.model import Attention, GqaAttention, MlaAttention
from upright.models.deriving.keys import ConfigKeys
from upright.models.deriving.layers import Layer, count_alike

Bounds = tuple[tuple[Attention, ...] | None, tuple[Attention, ...] | None]
_OF_WEIGHTS = re.compile(r"expert|moe|router|intermediate|ffn|mlp|feed")
_OF_ATTENTION = re.compile(r"attn|attention|kv|cache|head|window|sliding|latent|state|mixer|linear")
_ADDS = re.compile(r"index|draft|mtp|nextn|engram|ngram|(^|_)ple(_|$)")
_CUTS = re.compile(r"window|sliding|chunk|local|swa|share|reuse|source|skip|compress|stride")
_WINDOWS = re.compile(r"window|sliding|chunk|local|swa|recurr|mamba|ssm|rwkv|state")
_WIDTH = re.compile(r"head_dim|head_size|head_width|kv_channels|key_dim|value_dim")
_LAYERS = re.compile(
    r"layer|pattern|type|hybrid|recurr|linear|mamba|ssm|state|delta|block|memor|loop|repeat|depth|cycle"
)
_UNKNOWN_KIND = "is no kind of layer that is known here"
_MOST_COMPRESSED = 128
_FAMILY = frozenset({"architectures", "model_type"})


def bounds(keys: ConfigKeys, stack: tuple[Layer, ...], refused: Mapping[str, str], told: tuple[str, ...]) -> Bounds:
    read = count_alike(stack)
    if all(_OF_WEIGHTS.search(name) and not _OF_ATTENTION.search(name) for name in told):
        return read, read
    return _least(keys, read, refused, told), _most(keys, read, len(stack))


def _least(
    keys: ConfigKeys, read: tuple[Attention, ...], refused: Mapping[str, str], told: tuple[str, ...]
) -> tuple[Attention, ...]:
    adding = all(_ADDS.search(name) and not _CUTS.search(name) for name in told)
    left_out = all(_UNKNOWN_KIND in refused.get(name, "") for name in told)
    if not _FAMILY & set(told) and (adding or left_out):
        return read
    present = keys.values
    window = any(_WINDOWS.search(name) and entry for name, entry in present.items())
    heads, width = present.get("num_attention_heads"), present.get("kv_lora_rank") or present.get("head_dim")
    if not _whole(heads) or not heads or (window and not _grows(keys, read, told)):
        return ()
    if width is None and _whole(present.get("hidden_size")):
        width = present["hidden_size"] // heads
    if not _whole(width) or not width:
        return ()
    # Guard: a vector of compressed attention may stand for 128 tokens (DeepSeek V4's HCA).
    vector = max(1, width // _MOST_COMPRESSED)
    return (MlaAttention(layers=1, heads=heads, kv_lora_rank=vector, rope_head_dim=0),)


def _grows(keys: ConfigKeys, read: tuple[Attention, ...], told: tuple[str, ...]) -> bool:
    """Whether a layer keeps every token for certain: the file lists one, or it was read and no key speaks of layers."""
    listed = keys.values.get("layer_types")
    if isinstance(listed, list) and "full_attention" in listed and not any(_LAYERS.search(name) for name in told):
        return True
    if _FAMILY & set(told) or any(_LAYERS.search(name) or _CUTS.search(name) for name in told):
        return False
    return any(isinstance(kind, MlaAttention | GqaAttention) and kind.window_tokens is None for kind in read)


def _most(keys: ConfigKeys, read: tuple[Attention, ...], layers: int) -> tuple[Attention, ...] | None:
    """None if the file lacks what would bound it, or names it otherwise."""
    present, needed = keys.values, ("num_hidden_layers", "num_attention_heads", "hidden_size")
    if any(not _whole(present.get(name)) or not present[name] for name in needed):
        return None
    heads, hidden = present["num_attention_heads"], present["hidden_size"]
    indexes = [int(number) for name, number in _flat(present) if _index(name, number)]
    indexes += [kind.indexer_head_dim or 0 for kind in read if isinstance(kind, MlaAttention | GqaAttention)]
    rank, stated = present.get("kv_lora_rank"), present.get("num_key_value_heads")
    if rank:
        rope = present.get("qk_rope_head_dim")
        if not _whole(rank) or not _whole(rope):
            return None
        return (
            MlaAttention(
                layers=layers,
                heads=heads,
                kv_lora_rank=rank,
                rope_head_dim=rope or 0,
                indexer_head_dim=max([128, *indexes]),
                indexer_top_k=1,
            ),
        )
    widths = [int(number) for name, number in _flat(present) if _WIDTH.search(name) and _whole(number)]
    plain = [kind for kind in read if isinstance(kind, GqaAttention)]
    widths += [max(kind.key_head_dim, kind.value_head_dim) for kind in plain]
    width = max(hidden // heads, 0, *widths, _sum(present, "qk_nope_head_dim", "qk_rope_head_dim"))
    kv_heads = stated if _whole(stated) and stated else heads
    return (
        GqaAttention(
            layers=layers,
            heads=heads,
            kv_heads=max(kv_heads, *(kind.kv_heads for kind in plain), 1),
            key_head_dim=width,
            value_head_dim=width,
            indexer_head_dim=max([0, *indexes]) or None,
        ),
    )


def _flat(values: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Keys of the file and of the mappings in it."""
    for name, entry in values.items():
        yield from entry.items() if isinstance(entry, Mapping) else ((name, entry),)


def _whole(number: Any) -> bool:
    return type(number) is int and 0 <= number <= 2**24


def _sum(values: Mapping[str, Any], *names: str) -> int:
    return sum(int(values[name]) for name in names if _whole(values.get(name)))


def _index(name: str, number: Any) -> bool:
    return "index" in name and "dim" in name and _whole(number)
