"""A configuration that is not understood -> the least and the most that its layers can keep.

The most is every layer attending to everything with the widest heads that the file allows. The least is nothing that
grows: each layer may be a window or a recurrence, which is what unknown keys of attention have so far turned out to be.
A key that speaks of experts only leaves attention as it was read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from upright.deriving.keys import Keys
from upright.errors import ReadError
from upright.records.model import Attention, GqaAttention, MlaAttention

if TYPE_CHECKING:
    from upright.deriving.configuration import Layer

Bounds = tuple[tuple[Attention, ...] | None, tuple[Attention, ...] | None]
_OF_WEIGHTS = re.compile(r"expert|moe|router|intermediate|ffn|mlp|feed")
_WIDTH = re.compile(r"(^|_)head_dim$|^v_head_dim$|head_size$")


def bounds(keys: Keys, stack: tuple[Layer, ...], refused: Mapping[str, str], told: tuple[str, ...]) -> Bounds:
    from upright.deriving.configuration import grouped

    if all(_OF_WEIGHTS.search(name) for name in told):
        read = grouped(stack)
        return read, read
    return (), _most(keys, len(stack))


def _most(keys: Keys, layers: int) -> tuple[Attention, ...] | None:
    """None if the file lacks what would bound it, or names it otherwise."""
    present = keys.values
    try:
        heads = keys.integer("num_attention_heads")
        hidden = keys.required("hidden_size")
    except ReadError:
        return None
    if not heads or "num_hidden_layers" not in present or "num_attention_heads" not in present:
        return None
    widths = [int(number) for name, number in present.items() if _WIDTH.search(name) and _whole(number)]
    width = max([hidden // heads, *widths])
    both = _sum(present, "qk_nope_head_dim", "qk_rope_head_dim")
    kv_heads = max([heads, *(int(number) for name, number in present.items() if "kv" in name and _few(number, heads))])
    latent: tuple[Attention, ...] = ()
    if rank := present.get("kv_lora_rank"):
        if not _whole(rank) or not _whole(present.get("qk_rope_head_dim", 0)):
            return None
        latent = (
            MlaAttention(
                layers=layers,
                heads=heads,
                kv_lora_rank=rank,
                rope_head_dim=present.get("qk_rope_head_dim", 0),
                indexer_head_dim=max(
                    128, *(int(number) for name, number in present.items() if _index(name, number)), 0
                ),
                indexer_top_k=1,
            ),
        )
        if "num_key_value_heads" not in present or present["num_key_value_heads"] == heads:
            return latent
    stated = present.get("num_key_value_heads")
    plain = GqaAttention(
        layers=layers,
        heads=heads,
        kv_heads=int(stated) if _whole(stated) and stated else kv_heads,
        key_head_dim=max(width, both),
        value_head_dim=max(width, both),
        indexer_head_dim=next((int(number) for name, number in present.items() if _index(name, number)), None),
    )
    return latent or (plain,)


def _whole(number: Any) -> bool:
    return type(number) is int and 0 <= number <= 2**24


def _few(number: Any, heads: int) -> bool:
    return type(number) is int and 0 < number <= heads


def _sum(values: Mapping[str, Any], *names: str) -> int:
    return sum(int(values[name]) for name in names if _whole(values.get(name)))


def _index(name: str, number: Any) -> bool:
    return name in ("index_head_dim", "indexer_head_dim", "sparse_index_dim") and _whole(number)
