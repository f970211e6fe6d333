"""The KV cache of layers with latent (MLA) and compressed attention."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from upright.facts.records.model import Attention, CompressedAttention, GqaAttention, MlaAttention, SharedAttention
from upright.models.deriving.attention import Builder, LayerPlace, gqa
from upright.models.deriving.keys import ConfigKeys


def mla(keys: ConfigKeys, place: LayerPlace) -> tuple[Attention, ...]:
    rank = keys.integer("kv_lora_rank")
    if not rank:
        widths = [keys.integer(name) for name in ("qk_nope_head_dim", "qk_rope_head_dim")]
        if "kv_lora_rank" in keys.values and not any(widths):
            # vLLM 0.32.0 models/deepseek_v2.py:1280 (no widths of latent heads: plain heads, as DeepSeek-OCR has them)
            keys.ignore("q_lora_rank", "v_head_dim", "use_mla")
            return gqa(keys, place)
        keys.refuse("kv_lora_rank", "absent")
        return ()
    return (
        MlaAttention(
            layers=1,
            heads=keys.required("num_attention_heads"),
            kv_lora_rank=rank,
            rope_head_dim=keys.required("qk_rope_head_dim"),
            nope_head_dim=keys.integer("qk_nope_head_dim"),
            value_head_dim=keys.integer("v_head_dim"),
            q_lora_rank=keys.integer("q_lora_rank") or None,
        ),
    )


def mla_twice(keys: ConfigKeys, place: LayerPlace) -> tuple[Attention, ...]:
    """LongCat: two attentions a layer, around one mixture."""
    return (*mla(keys, place), *mla(keys, place))


def mla_expanded(keys: ConfigKeys, place: LayerPlace) -> tuple[Attention, ...]:
    """Latent projections, but whole heads in the cache, values padded to the width of keys (MiniCPM3)."""
    query = keys.required("num_attention_heads")
    width = keys.required("qk_nope_head_dim") + keys.required("qk_rope_head_dim")
    keys.ignore("v_head_dim", "num_key_value_heads")
    return (GqaAttention(layers=1, heads=query, kv_heads=query, key_head_dim=width, value_head_dim=width),)


def mla_window(keys: ConfigKeys, place: LayerPlace) -> tuple[Attention, ...]:
    """Latent attention that slides; a family may give it widths of its own."""
    built = []
    for kind in mla(keys, place):
        assert isinstance(kind, MlaAttention)
        update: dict[str, Any] = {"window_tokens": keys.integer("sliding_window") or None}
        for field, key in (("kv_lora_rank", "swa_kv_lora_rank"), ("rope_head_dim", "swa_qk_rope_head_dim")):
            if place.settings.get("swa_widths") and (own := keys.integer(key)):
                update[field] = own
        built.append(kind.model_copy(update=update))
    return tuple(built)


def mla_sparse(keys: ConfigKeys, place: LayerPlace) -> tuple[Attention, ...]:
    """DSA: an index key beside the latent vector, on layers whose indexer is their own."""
    built, own = [], owns_index(keys, place)
    for kind in mla(keys, place):
        assert isinstance(kind, MlaAttention)
        update = {
            "indexer_top_k": keys.required("index_topk"),
            "indexer_head_dim": keys.required("index_head_dim") if own else None,
            "indexer_every_tokens": keys.integer("index_kpool") or 1,
        }
        built.append(kind.model_copy(update=update))
    return tuple(built)


def owns_index(keys: ConfigKeys, place: LayerPlace) -> bool:
    """Whether the layer computes its own selection. Three spellings say so; if two disagree, none is believed."""
    answers: dict[str, bool] = {}
    if (listed := keys.kinds("indexer_types", place.layers)) is not None:
        if listed[place.index] not in ("full", "shared"):
            keys.refuse("indexer_types", f"{str(listed[place.index])[:30]} is no kind of indexer")
        answers["indexer_types"] = listed[place.index] == "full"
    text = keys.get("index_topk_pattern")
    if isinstance(text, str | list) and len(text) > place.index:
        answers["index_topk_pattern"] = text[place.index] in ("F", "full")
    if "index_topk_freq" in keys or not answers:
        every, offset = keys.integer("index_topk_freq") or 1, keys.integer("index_skip_topk_offset")
        if not answers and place.settings.get("shared_every"):
            every, offset = int(place.settings["shared_every"]), 2
            keys.assume("indexer_types", f"one of {every} is full", "the library's own pattern")
        answers["index_topk_freq"] = max(place.index - (2 if offset is None else offset) + 1, 0) % every == 0
    if len(set(answers.values())) > 1:
        keys.refuse(next(iter(answers)), f"disagrees with {' and '.join(list(answers)[1:])}")
    return next(iter(answers.values()))


def mla_sparse_sources(keys: ConfigKeys, place: LayerPlace) -> tuple[Attention, ...]:
    """Latent vectors only on the layers that others read from."""
    sources = keys.numbers("kv_source_layers")
    if sources is None:
        return mla_sparse(keys, place)
    if len(sources) < place.layers:
        keys.refuse("kv_source_layers", f"{len(sources)} entries for {place.layers} layers")
        return mla_sparse(keys, place)
    if sources[place.index] == place.index:
        return mla_sparse(keys, place)
    if owns_index(keys, place):
        keys.refuse("indexer_types", "an index of its own on a layer that shares its keys")
    return (SharedAttention(layers=1, heads=keys.required("num_attention_heads")),)


def compressed(keys: ConfigKeys, place: LayerPlace) -> tuple[Attention, ...]:
    """DeepSeek V4: one head kept whole in a window and compressed beyond it; ratio 4 has an indexer."""
    try:
        ratio = int(place.kind)
    except ValueError:
        ratio = -1
    if ratio not in (0, 1, 4, 128):
        keys.refuse("compress_ratios", f"{place.kind[:20]} is no ratio that is known")
        ratio = 0
    ratio = 0 if ratio == 1 else ratio
    return (_compressed(keys, ratio, indexed=ratio == 4),)


def compressed_sources(keys: ConfigKeys, place: LayerPlace) -> tuple[Attention, ...]:
    """DeepSeek V4.1: a window in every layer, compressed entries only on the layers that others read from."""
    sources = keys.numbers("kv_source_layer_ids")
    ratios = keys.numbers("compress_ratios")
    if sources is None or ratios is None or len(ratios) < place.layers:
        keys.refuse("kv_source_layer_ids", "absent, or without compress_ratios")
        return ()
    if any(not 0 <= source < place.layers for source in sources):
        keys.refuse("kv_source_layer_ids", "names a layer that is not there")
    ratio = ratios[place.index] if place.index in sources else 0
    if ratio not in (0, 1, 2, 4, 128):
        keys.refuse("compress_ratios", f"{ratio} is no ratio that is known")
    return (_compressed(keys, ratio, indexed=ratio > 0).model_copy(update={"layout": "v41"}),)


def _compressed(keys: ConfigKeys, ratio: int, *, indexed: bool) -> CompressedAttention:
    return CompressedAttention(
        layers=1,
        heads=keys.required("num_attention_heads"),
        head_dim=keys.required("head_dim"),
        rope_head_dim=keys.integer("qk_rope_head_dim"),
        window_tokens=keys.required("sliding_window"),
        ratio=ratio,
        indexer_head_dim=keys.integer("index_head_dim") if indexed else None,
        indexer_top_k=keys.integer("index_topk") if indexed else None,
    )


LATENT: Mapping[str, Builder] = {
    "mla": mla,
    "mla-twice": mla_twice,
    "mla-expanded": mla_expanded,
    "mla-window": mla_window,
    "mla-sparse": mla_sparse,
    "mla-sparse-sources": mla_sparse_sources,
    "compressed": compressed,
    "compressed-sources": compressed_sources,
}
