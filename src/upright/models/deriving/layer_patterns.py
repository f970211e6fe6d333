"""Keys -> the kind of every layer, by name.

Newer configurations list `layer_types`; where they do not, each family has a rule of its own, which is code in its
library and nowhere in the file. A rule's name stands in the family's row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from upright.models.deriving.keys import ConfigKeys

FULL, SLIDING, CHUNKED, LINEAR = "full_attention", "sliding_attention", "chunked_attention", "linear_attention"
Settings = Mapping[str, int | str | bool]
Pattern = Callable[[ConfigKeys, int, Settings], tuple[str, ...]]

# Older files spell the same kinds otherwise (transformers 5.22.2 configuration_utils.py, remap_legacy_layer_types).
_SPELLINGS = {"mamba": LINEAR, "attention": FULL, "deepseek_sparse_attention": "indexed_attention"}


def layer_kinds(rule: str, keys: ConfigKeys, layers: int, settings: Settings) -> tuple[str, ...]:
    """One name a layer. What the file lists goes before the rule."""
    listed = keys.kinds("layer_types", layers) if rule not in _OWN_LIST else None
    if listed is None:
        return PATTERNS[rule](keys, layers, settings)
    keys.ignore(*_RULE_KEYS, str(settings.get("key", "layer_types")))
    kinds = tuple(_SPELLINGS.get(str(name), str(name)) for name in listed)
    _agree(keys, kinds)
    if settings.get("last_full") and kinds[-1] == SLIDING:
        kinds = (*kinds[:-1], FULL)
    return kinds


def _agree(keys: ConfigKeys, kinds: tuple[str, ...]) -> None:
    """A second list of the recurrent layers, counted from 0 or from 1, must say the same."""
    part = keys.part("linear_attn_config")
    linear = part.numbers("kda_layers") if part else None
    if part is None or linear is None:
        return
    part.ignore("full_attn_layers")
    here = {index for index, kind in enumerate(kinds) if kind == LINEAR}
    if set(linear) not in (here, {index + 1 for index in here}):
        keys.refuse("layer_types", "disagrees with linear_attn_config.kda_layers")


def _full(keys: ConfigKeys, layers: int, settings: Settings) -> tuple[str, ...]:
    return (str(settings.get("kind", FULL)),) * layers


def _uniform_window(keys: ConfigKeys, layers: int, settings: Settings) -> tuple[str, ...]:
    """No list: a window in the file is every layer's, unless a switch says that it is off."""
    if "use_sliding_window" in keys.values and not keys.flag("use_sliding_window"):
        keys.ignore("sliding_window", "max_window_layers")
        return (FULL,) * layers
    return (SLIDING if keys.integer("sliding_window") else FULL,) * layers


def _every(keys: ConfigKeys, layers: int, settings: Settings) -> tuple[str, ...]:
    """Every n-th layer is full, the others are of the other kind; n stands in the file or is the family's."""
    other = str(settings.get("other", SLIDING))
    if other == SLIDING and not keys.integer("sliding_window"):
        return (FULL,) * layers
    every = int(settings["every"])
    if key := settings.get("key"):
        stated = keys.integer(str(key))
        if stated is None:
            keys.assume(str(key), every, "the library's own pattern")
        elif stated == 0:
            return (other,) * layers
        every = stated if stated is not None else every
    else:
        keys.assume("layer_types", f"every {every}th layer is full", "the library's own pattern")
    offset = int(settings.get("offset", every - 1))
    kinds = [FULL if index % every == offset % every else other for index in range(layers)]
    if settings.get("last_full") and kinds:
        kinds[-1] = FULL
    return tuple(kinds)


def _from_the_end(keys: ConfigKeys, layers: int, settings: Settings) -> tuple[str, ...]:
    """As `every`, counted backward from the last layer."""
    every = int(settings["every"])
    keys.assume("layer_types", f"every {every}th layer from the last is full", "the library's own pattern")
    return tuple(FULL if (layers - 1 - index) % every == 0 else SLIDING for index in range(layers))


def _window_layers(keys: ConfigKeys, layers: int, settings: Settings) -> tuple[str, ...]:
    """Qwen: from layer `max_window_layers` on there is a window, if `use_sliding_window` says so."""
    if not keys.flag("use_sliding_window", bool(settings.get("use_sliding_window", False))):
        keys.ignore("sliding_window", "max_window_layers")
        return (FULL,) * layers
    first, window = keys.integer("max_window_layers") or 0, keys.integer("sliding_window")
    return tuple(SLIDING if window and index >= first else FULL for index in range(layers))


def _no_rope(keys: ConfigKeys, layers: int, settings: Settings) -> tuple[str, ...]:
    """Llama 4: layers without rotary positions see everything, the others a chunk; the file lists neither kind."""
    listed = keys.numbers("no_rope_layers")
    if listed is not None and len(listed) >= layers:
        rotary: tuple[int, ...] = listed[:layers]
        keys.ignore("no_rope_layer_interval")
    else:
        interval = keys.integer("no_rope_layer_interval") or int(settings.get("every", 4))
        rotary = tuple(int((index + 1) % interval != 0) for index in range(layers))
    other = str(settings.get("other", CHUNKED))
    return tuple(other if has_rotary else FULL for has_rotary in rotary)


def _smol(keys: ConfigKeys, layers: int, settings: Settings) -> tuple[str, ...]:
    """SmolLM3: a window only on layers without rotary positions, and only if asked for."""
    kinds = _no_rope(keys, layers, {**settings, "other": FULL})
    if not keys.flag("use_sliding_window") or not keys.integer("sliding_window"):
        keys.ignore("sliding_window")
        return (FULL,) * layers
    interval = keys.integer("no_rope_layer_interval") or 4
    return tuple(SLIDING if (index + 1) % interval == 0 else kind for index, kind in enumerate(kinds))


def _linear_lists(keys: ConfigKeys, layers: int, settings: Settings) -> tuple[str, ...]:
    """Kimi: `linear_attn_config` names both kinds of layers, counted from 1."""
    part = keys.part("linear_attn_config")
    full = part.numbers("full_attn_layers") if part else None
    linear = part.numbers("kda_layers") if part else None
    if full is None or linear is None:
        keys.refuse("linear_attn_config", "does not name full_attn_layers and kda_layers")
        return (LINEAR,) * layers
    if sorted((*full, *linear)) != list(range(1, layers + 1)):
        keys.refuse("linear_attn_config", f"names {len(full) + len(linear)} layers of {layers}")
    return tuple(FULL if index + 1 in full else LINEAR for index in range(layers))


def _groups(keys: ConfigKeys, layers: int, settings: Settings) -> tuple[str, ...]:
    """Ling and Ring: the last layer of each group is full; so are layers after the last whole group, in version 3."""
    size = keys.integer("layer_group_size") or 1
    whole = layers // size * size if settings.get("rest_full") else layers
    return tuple(FULL if (index + 1) % size == 0 or index >= whole else LINEAR for index in range(layers))


def _attention_list(keys: ConfigKeys, layers: int, settings: Settings) -> tuple[str, ...]:
    """MiniMax-01: 1 is softmax, 0 is lightning attention."""
    listed = keys.kinds("attn_type_list", layers)
    if listed is not None:
        return tuple(FULL if entry == 1 else LINEAR for entry in listed)
    keys.assume("layer_types", "every second layer is full, the first one is", "the library's own pattern")
    return tuple(FULL if (index + 1) % 2 else LINEAR for index in range(layers))


_LETTERS = {"M": LINEAR, "*": FULL, "-": "mlp", "E": "moe"}


def _letters(keys: ConfigKeys, layers: int, settings: Settings) -> tuple[str, ...]:
    """Nemotron-H: a string with a letter a block, or a list of names. The list is longer than `num_hidden_layers` says
    where that key is left from before; transformers and the engines go by the list."""
    listed = keys.get("layers_block_type", "layer_types")
    if listed is None and "layers_block_type" not in keys.values:
        text = keys.word("hybrid_override_pattern")
        listed = [_LETTERS.get(letter, letter) for letter in text] if text else None
    else:
        keys.ignore("hybrid_override_pattern")
    if not isinstance(listed, list | tuple) or not listed:
        keys.refuse("hybrid_override_pattern", "no list of blocks")
        return (FULL,) * layers
    return tuple(_SPELLINGS.get(str(name), str(name)) for name in listed[:10_000])


def _period(keys: ConfigKeys, layers: int, settings: Settings) -> tuple[str, ...]:
    """Jamba: attention every `attn_layer_period` layers."""
    period, offset = keys.integer("attn_layer_period") or 8, keys.integer("attn_layer_offset") or 0
    return tuple(FULL if index % period == offset else LINEAR for index in range(layers))


def _indices(keys: ConfigKeys, layers: int, settings: Settings) -> tuple[str, ...]:
    """A list of the layers that attend."""
    listed = keys.numbers(str(settings["key"]))
    other = str(settings.get("other", LINEAR))
    if listed is None:
        return ((FULL,) if settings.get("all_if_absent") else (other,)) * layers
    if any(not 0 <= index < layers for index in listed):
        keys.refuse(str(settings["key"]), "names a layer that is not there")
    return tuple(FULL if index in listed else other for index in range(layers))


def _hybrid_list(keys: ConfigKeys, layers: int, settings: Settings) -> tuple[str, ...]:
    """MiMo-V2: 1 is a window, 0 the whole context."""
    listed = keys.kinds("hybrid_layer_pattern", layers)
    if listed is None:
        keys.assume("hybrid_layer_pattern", "the first and every 6th layer are full", "the library's own pattern")
        return tuple(FULL if index == 0 or (index + 1) % 6 == 0 else SLIDING for index in range(layers))
    if any(entry not in (0, 1) for entry in listed):
        keys.refuse("hybrid_layer_pattern", "has entries other than 0 and 1")
    return tuple(SLIDING if entry == 1 else FULL for entry in listed)


def _blocks(keys: ConfigKeys, layers: int, settings: Settings) -> tuple[str, ...]:
    """Zamba: `layers_block_type`, where a hybrid block is a shared attention before its mixer."""
    listed = keys.kinds("layers_block_type", layers)
    if listed is None:
        keys.refuse("layers_block_type", "absent")
        return (LINEAR,) * layers
    return tuple(_SPELLINGS.get(str(name), str(name)) for name in listed)


def _sparse_list(keys: ConfigKeys, layers: int, settings: Settings) -> tuple[str, ...]:
    """MiniMax M3: `sparse_attention_config` says which layers have an index; without it none has."""
    part = keys.part("sparse_attention_config")
    if part is None:
        return (FULL,) * layers
    if not part.flag("use_sparse_attention", True):
        part.ignore(*part.values)
        return (FULL,) * layers
    listed = part.kinds("sparse_attention_freq", layers)
    if listed is None:
        keys.refuse("sparse_attention_config", "has no sparse_attention_freq")
        return ("minimax_m3_sparse",) * layers
    return tuple("minimax_m3_sparse" if entry else FULL for entry in listed)


def _local_ids(keys: ConfigKeys, layers: int, settings: Settings) -> tuple[str, ...]:
    """Inkling: `local_layer_ids` have the window."""
    local = keys.numbers("local_layer_ids")
    if local is None:
        keys.assume("local_layer_ids", "all but every 6th layer", "the library's own pattern")
        return tuple("hybrid_sliding" if (index + 1) % 6 else "hybrid" for index in range(layers))
    return tuple("hybrid_sliding" if index in local else "hybrid" for index in range(layers))


def _compressed(keys: ConfigKeys, layers: int, settings: Settings) -> tuple[str, ...]:
    """DeepSeek V4: tokens that become one entry, layer by layer."""
    names = {"sliding_attention": 0, "compressed_sparse_attention": 4, "heavily_compressed_attention": 128}
    ratios = keys.kinds("compress_ratios", layers)
    if ratios is not None:
        keys.ignore("layer_types")
        return tuple(str(ratio) for ratio in ratios)
    listed = keys.kinds("layer_types", layers)
    if listed is None or any(name not in names for name in listed):
        keys.refuse("compress_ratios", "absent")
        return ("0",) * layers
    return tuple(str(names[str(name)]) for name in listed)


def _listed(keys: ConfigKeys, layers: int, settings: Settings) -> tuple[str, ...]:
    """No rule: the file must say."""
    keys.refuse("layer_types", "absent")
    return (FULL,) * layers


def _hunyuan(keys: ConfigKeys, layers: int, settings: Settings) -> tuple[str, ...]:
    """Cross-layer attention is a switch of older files; no engine of today builds it from them."""
    if keys.flag("use_cla"):
        keys.refuse("use_cla", "layers share keys and values")
    return _uniform_window(keys, layers, settings)


def _flint(keys: ConfigKeys, layers: int, settings: Settings) -> tuple[str, ...]:
    keys.assume("layer_types", "the first two, every fourth and the last layer are full", "the library's own pattern")
    last = layers - 1
    return tuple(FULL if index < 2 or index % 4 == 1 or index == last else SLIDING for index in range(layers))


PATTERNS: Mapping[str, Pattern] = {
    "full": _full,
    "listed": _listed,
    "hunyuan": _hunyuan,
    "flint": _flint,
    "uniform-window": _uniform_window,
    "every": _every,
    "from-the-end": _from_the_end,
    "window-layers": _window_layers,
    "no-rope": _no_rope,
    "smol": _smol,
    "linear-lists": _linear_lists,
    "groups": _groups,
    "attention-list": _attention_list,
    "letters": _letters,
    "period": _period,
    "indices": _indices,
    "hybrid-list": _hybrid_list,
    "blocks": _blocks,
    "sparse-list": _sparse_list,
    "local-ids": _local_ids,
    "compressed": _compressed,
}
# These read `layer_types` themselves, or the engine goes by another key.
_OWN_LIST = frozenset({"letters", "compressed", "blocks"})
# What a rule would ask, did the file not list its layers: engines go by the list.
_RULE_KEYS = (
    "use_sliding_window", "max_window_layers", "full_attention_interval", "sliding_window_pattern",
    "no_rope_layers", "no_rope_layer_interval", "global_attn_every_n_layers", "layer_group_size", "attn_type_list",
    "attn_layer_indices", "full_attn_idxs", "hybrid_layer_pattern", "local_layer_ids", "sliding_window",
)  # fmt: skip
