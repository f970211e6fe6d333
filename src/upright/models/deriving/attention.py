"""The KV cache of a layer by its kind of attention, as engines build it.

Every function makes one layer. Widths are what is stored: heads that a family pads, doubles or shares are counted so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from upright.facts.records.model import Attention, GqaAttention, SharedAttention
from upright.models.deriving.keys import ConfigKeys
from upright.models.deriving.layer_patterns import Settings


@dataclass(frozen=True)
class LayerPlace:
    """Which layer is built."""

    index: int
    layers: int
    kinds: tuple[str, ...]
    settings: Settings

    @property
    def kind(self) -> str:
        return self.kinds[self.index]


Builder = Callable[[ConfigKeys, LayerPlace], tuple[Attention, ...]]


def heads(keys: ConfigKeys, place: LayerPlace) -> GqaAttention:
    """Query and key heads of a plain layer."""
    query = _own(keys, place, "num_attention_heads") or keys.required("num_attention_heads")
    width = _own(keys, place, "head_dim") or _head_dim(keys, query)
    return GqaAttention(
        layers=1,
        heads=query,
        kv_heads=_own(keys, place, "num_key_value_heads") or _kv_heads(keys, query),
        key_head_dim=width,
        value_head_dim=(keys.integer("v_head_dim") if place.settings.get("v_head_dim") else None) or width,
    )


def gqa(keys: ConfigKeys, place: LayerPlace) -> tuple[Attention, ...]:
    return (heads(keys, place),)


def gqa_window(keys: ConfigKeys, place: LayerPlace) -> tuple[Attention, ...]:
    window = keys.integer("sliding_window")
    if not window:
        if "sliding_window" not in keys.values:
            keys.refuse("sliding_window", "absent, and a layer slides")
        return gqa(keys, place)
    window += int(place.settings.get("window_more", 0))
    return (heads(keys, place).model_copy(update={"window_tokens": window}),)


def gqa_chunk(keys: ConfigKeys, place: LayerPlace) -> tuple[Attention, ...]:
    chunk = keys.integer("attention_chunk_size")
    if not chunk:
        if "attention_chunk_size" not in keys.values:
            keys.refuse("attention_chunk_size", "absent, and a layer attends to chunks")
        return gqa(keys, place)
    return (heads(keys, place).model_copy(update={"window_tokens": chunk, "chunked": True}),)


def gqa_other_window(keys: ConfigKeys, place: LayerPlace) -> tuple[Attention, ...]:
    """Windowed layers with heads of their own: `swa_*` (MiMo-V2, Inkling)."""
    full = heads(keys, place)
    if "swa_num_key_value_heads" not in keys and not keys.get("swa_num_key_value_heads"):
        keys.refuse("swa_num_key_value_heads", "absent, and layers slide with heads of their own")
    query = keys.integer("swa_num_attention_heads") or full.heads
    width = keys.integer("swa_head_dim") or full.key_head_dim
    value_width = (
        keys.integer("swa_v_head_dim") or keys.integer("v_head_dim") if place.settings.get("v_head_dim") else width
    )
    window = keys.integer("sliding_window_size", "sliding_window")
    if "sliding_window_size" in keys:
        keys.ignore("sliding_window")
    return (
        GqaAttention(
            layers=1,
            heads=query,
            kv_heads=keys.integer("swa_num_key_value_heads") or full.kv_heads,
            key_head_dim=width,
            value_head_dim=value_width or width,
            window_tokens=window or None,
        ),
    )


def gqa_global(keys: ConfigKeys, place: LayerPlace) -> tuple[Attention, ...]:
    """Gemma 4's full layers: wider heads, and fewer of them; keys that are also values are stored twice."""
    plain = heads(keys, place)
    width = keys.integer("global_head_dim")
    if width is None and "per_layer_config" not in keys.values:
        width = int(place.settings.get("global_head_dim", 0)) or None
        if width:
            keys.assume("global_head_dim", width, "the library's default")
    few = keys.integer("num_global_key_value_heads")
    if not keys.flag("attention_k_eq_v", not place.settings.get("k_eq_v_gates", False)):
        few = None
    width = width or plain.key_head_dim
    if shared := _shared(keys, place, width):
        return shared
    return (
        plain.model_copy(update={"key_head_dim": width, "value_head_dim": width, "kv_heads": few or plain.kv_heads}),
    )


def gqa_window_or_shared(keys: ConfigKeys, place: LayerPlace) -> tuple[Attention, ...]:
    return _shared(keys, place) or gqa_window(keys, place)


def gqa_or_shared(keys: ConfigKeys, place: LayerPlace) -> tuple[Attention, ...]:
    return _shared(keys, place) or gqa(keys, place)


def gqa_indexed(keys: ConfigKeys, place: LayerPlace) -> tuple[Attention, ...]:
    """Block-sparse attention with an index key beside keys and values (MiniMax M3's MSA, Qwen's QSA)."""
    part = keys.part("sparse_attention_config")
    source = part if part is not None else keys
    names = ("sparse_index_dim",) if part is not None else ("index_head_dim", "indexer_head_dim")
    width = source.integer(*names)
    if width is None:
        keys.refuse("sparse_attention_config", "no width of the index key")
        return gqa(keys, place)
    if part is not None:
        _only_index_keys(part, place)
    if not place.settings.get("one_index_head") and (keys.integer("indexer_kv_heads") or 1) != 1:
        keys.refuse("indexer_kv_heads", "more than one index key a token")
    top = source.integer("sparse_topk_blocks", "index_topk_blocks", "indexer_budget")
    update = {
        "indexer_head_dim": width,
        "indexer_top_k": top,
        "indexer_every_tokens": keys.integer("indexer_compress_ratio") or 1,
    }
    return (heads(keys, place).model_copy(update=update),)


def _only_index_keys(part: ConfigKeys, place: LayerPlace) -> None:
    """Guard: an engine keeps index values too where this switch is off (SGLang srt/mem_cache/memory_pool.py)."""
    off = part.get("sparse_disable_index_value")
    if isinstance(off, list) and len(off) > place.index:
        off = off[place.index]
    if off is not None and not off:
        part.refuse("sparse_disable_index_value", "index values are kept too")
    part.ignore("sparse_block_size", "sparse_local_block", "sparse_init_block", "sparse_score_type")


def falcon(keys: ConfigKeys, place: LayerPlace) -> tuple[Attention, ...]:
    """One key head, a few, or one a query head, by two switches."""
    query = keys.required("num_attention_heads")
    if keys.flag("new_decoder_architecture"):
        kv_heads = keys.integer("num_kv_heads", "n_head_kv") or query
        keys.ignore("multi_query")
    else:
        kv_heads = 1 if keys.flag("multi_query", True) else query
        keys.ignore("num_kv_heads", "n_head_kv")
    width = _head_dim(keys, query)
    return (GqaAttention(layers=1, heads=query, kv_heads=kv_heads, key_head_dim=width, value_head_dim=width),)


def step3(keys: ConfigKeys, place: LayerPlace) -> tuple[Attention, ...]:
    """Multi-matrix factorisation: one key and one value head for all."""
    keys.ignore("num_attention_groups", "num_key_value_heads")
    return (heads(keys, place).model_copy(update={"kv_heads": 1}),)


def dbrx(keys: ConfigKeys, place: LayerPlace) -> tuple[Attention, ...]:
    part = keys.part("attn_config")
    query = keys.required("num_attention_heads")
    kv_heads = part.integer("kv_n_heads") if part else None
    if kv_heads is None:
        keys.refuse("attn_config", "no kv_n_heads")
    width = _head_dim(keys, query)
    return (GqaAttention(layers=1, heads=query, kv_heads=kv_heads or query, key_head_dim=width, value_head_dim=width),)


def deci(keys: ConfigKeys, place: LayerPlace) -> tuple[Attention, ...]:
    """Nemotron by architecture search: each block says how many query heads share a key, or that it has none."""
    blocks = keys.kinds("block_configs", place.layers)
    block = blocks[place.index] if blocks else None
    own = block.get("attention") if isinstance(block, Mapping) else None
    if not isinstance(own, Mapping) or own.get("replace_with_linear"):
        keys.refuse("block_configs", "a block without a known attention")
        return ()
    if own.get("no_op"):
        return ()
    query, group = keys.required("num_attention_heads"), own.get("n_heads_in_group")
    if type(group) is not int or group < 1:
        keys.refuse("block_configs", "no n_heads_in_group")
        return ()
    window = own.get("window_length")
    width = _head_dim(keys, query)
    return (
        GqaAttention(
            layers=1,
            heads=query,
            kv_heads=max(1, query // group),
            key_head_dim=width,
            value_head_dim=width,
            window_tokens=window if type(window) is int and window > 0 else None,
        ),
    )


def nothing(keys: ConfigKeys, place: LayerPlace) -> tuple[Attention, ...]:
    return ()


def _shared(keys: ConfigKeys, place: LayerPlace, width: int | None = None) -> tuple[Attention, ...]:
    """The last layers read the cache of the last one of their kind before them."""
    shared = keys.integer("num_kv_shared_layers") or 0
    if shared >= place.layers:
        if shared:
            keys.refuse("num_kv_shared_layers", "leaves no layer with a cache of its own")
        return ()
    if place.index < place.layers - shared:
        return ()
    return (SharedAttention(layers=1, heads=keys.required("num_attention_heads"), head_dim=width),)


def _own(keys: ConfigKeys, place: LayerPlace, name: str) -> int | None:
    """What this layer has in place of the model's value."""
    if place.settings.get("heads_per_layer") and name == "num_attention_heads":
        listed = keys.kinds("num_attention_heads_per_layer", place.layers)
        keys.ignore("num_attention_heads")
        return listed[place.index] if listed and type(listed[place.index]) is int else None
    other = keys.part("attention_other_setting") if place.settings.get("other_setting") else None
    if other is not None and place.kind == other.word("attention_type"):
        return other.integer(name, *({"num_key_value_heads": ("num_attention_groups",)}.get(name, ())))
    layers = keys.part("per_layer_config")
    if layers is None:
        return None
    number = next(
        (layer_name for layer_name in layers.values if layer_name.isdigit() and int(layer_name) == place.index), None
    )
    layer = layers.part(number) if number is not None else None
    return layer.integer(name) if layer is not None else None


def _kv_heads(keys: ConfigKeys, query: int) -> int:
    stated = keys.integer("num_key_value_heads")
    if stated:
        return stated
    if stated is None and "num_key_value_heads" not in keys.values:
        keys.assume("num_key_value_heads", query, "the library's rule: as many as num_attention_heads")
    return query


def _head_dim(keys: ConfigKeys, query: int) -> int:
    if not query:
        keys.refuse("num_attention_heads", "is 0")
        return 0
    if stated := keys.integer("head_dim"):
        return stated
    width = keys.required("hidden_size") // query
    if "head_dim" not in keys.values:
        keys.assume("head_dim", width, "the library's rule: hidden_size / num_attention_heads")
    return width


BUILDERS: Mapping[str, Builder] = {
    "gqa": gqa,
    "gqa-window": gqa_window,
    "gqa-chunk": gqa_chunk,
    "gqa-other-window": gqa_other_window,
    "gqa-global": gqa_global,
    "gqa-or-shared": gqa_or_shared,
    "gqa-window-or-shared": gqa_window_or_shared,
    "gqa-indexed": gqa_indexed,
    "falcon": falcon,
    "step3": step3,
    "dbrx": dbrx,
    "deci": deci,
    "none": nothing,
}
