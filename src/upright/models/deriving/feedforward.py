"""Keys -> the feed-forward part of every layer: dense, a mixture, both, or none.

Where the mixture begins and which layers it skips is spelled in a dozen ways; a family's row names its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from upright.models.deriving.keys import LARGEST, ConfigKeys
from upright.models.deriving.layer_patterns import Settings

COUNTS = ("n_routed_experts", "num_experts", "num_local_experts", "moe_num_experts")
ACTIVE = (
    "num_experts_per_tok", "num_experts_per_token", "experts_per_token", "moe_topk", "moe_k", "moe_top_k",
    "top_k_experts",
)  # fmt: skip
WIDTHS = ("moe_intermediate_size", "expert_ffn_hidden_size")
SHARED_COUNTS = ("n_shared_experts", "num_shared_experts", "moe_num_shared_experts", "num_shared_expert")
SHARED_WIDTHS = (
    "shared_expert_intermediate_size", "moe_shared_expert_intermediate_size", "shared_intermediate_size",
    "share_expert_dim",
)  # fmt: skip


@dataclass(frozen=True)
class Mixture:
    """Routed experts of one layer, and what every token visits beside them."""

    count: int
    active: int
    width: int
    shared_width: int
    shared: int


class FeedForward(NamedTuple):
    """What follows attention in one layer; None is not there."""

    dense_width: int | None = None
    mixture: Mixture | None = None


Placement = Callable[[ConfigKeys, int, Settings], tuple[bool, ...]]
"""Which layers have the mixture."""


def feedforward(
    placement: str, keys: ConfigKeys, kinds: tuple[str, ...], settings: Settings
) -> tuple[FeedForward, ...]:
    """One entry a layer."""
    layers = len(kinds)
    if placement in _WHOLE:
        return _WHOLE[placement](keys, layers, settings)
    if placement == "by-kind":
        return _by_kind(keys, kinds, settings)
    widths = dense_widths(keys, layers, settings)
    mixture = None if placement == "dense" else _mixture(keys, settings, widths[0])
    if mixture is None:
        return tuple(FeedForward(dense_width=width) for width in widths)
    placed = PLACEMENTS[placement](keys, layers, settings)
    if placement == "beside":
        return tuple(
            FeedForward(width, mixture if there else None) for width, there in zip(widths, placed, strict=True)
        )
    return tuple(
        FeedForward(mixture=mixture) if there else FeedForward(dense_width=width)
        for width, there in zip(widths, placed, strict=True)
    )


def _by_kind(keys: ConfigKeys, kinds: tuple[str, ...], settings: Settings) -> tuple[FeedForward, ...]:
    """Blocks of their own: the pattern says which is dense and which a mixture."""
    parts = {"mlp": FeedForward(), "moe": FeedForward()}
    if "mlp" in kinds:
        parts["mlp"] = FeedForward(dense_width=dense_width(keys, settings))
    if "moe" in kinds:
        parts["moe"] = FeedForward(mixture=_mixture(keys, settings, None))
        keys.ignore("intermediate_size")
    else:
        keys.ignore(*COUNTS, *ACTIVE, *WIDTHS, *SHARED_COUNTS, *SHARED_WIDTHS)
    return tuple(parts.get(kind, FeedForward()) for kind in kinds)


def _none(keys: ConfigKeys, layers: int, settings: Settings) -> tuple[FeedForward, ...]:
    return (FeedForward(),) * layers


def _gemma4(keys: ConfigKeys, layers: int, settings: Settings) -> tuple[FeedForward, ...]:
    """A dense part in every layer, and a mixture beside it if the model has one. Layers that read another's cache are
    twice as wide where a switch says so (vLLM 0.32.0 models/gemma4.py:595-607)."""
    widths: tuple[int | None, ...] = dense_widths(keys, layers, settings)
    shared = keys.integer("num_kv_shared_layers") or 0
    if keys.flag("use_double_wide_mlp") and 0 < shared < layers:
        widths = tuple(2 * width if width and index >= layers - shared else width for index, width in enumerate(widths))
    if not keys.flag("enable_moe_block"):
        keys.ignore(*COUNTS, *ACTIVE, *WIDTHS)
        return tuple(FeedForward(width) for width in widths)
    mixture = _mixture(keys, settings, widths[0])
    return tuple(FeedForward(width, mixture) for width in widths)


def _residual(keys: ConfigKeys, layers: int, settings: Settings) -> tuple[FeedForward, ...]:
    """Grok: a mixture in every layer, and a dense part beside it if a switch says so (SGLang srt/models/grok.py)."""
    dense = dense_width(keys, settings)
    mixture = _mixture(keys, settings, dense)
    return (FeedForward(dense if keys.flag("residual_moe") else None, mixture),) * layers


def _longcat(keys: ConfigKeys, layers: int, settings: Settings) -> tuple[FeedForward, ...]:
    """Two dense parts a layer, and a mixture across them."""
    dense = dense_width(keys, settings)
    return (FeedForward(2 * dense if dense else None, _mixture(keys, settings, dense)),) * layers


def _dbrx(keys: ConfigKeys, layers: int, settings: Settings) -> tuple[FeedForward, ...]:
    part = keys.part("ffn_config")
    if part is None:
        keys.refuse("ffn_config", "absent")
        return (FeedForward(),) * layers
    names = ("moe_num_experts", "moe_top_k", "ffn_hidden_size")
    count, active, width = (part.integer(name) or 0 for name in names)
    return (FeedForward(mixture=Mixture(count, active, width, 0, 0)),) * layers


def _deci(keys: ConfigKeys, layers: int, settings: Settings) -> tuple[FeedForward, ...]:
    """Each block has a width of its own: a factor of the hidden size, or none at all."""
    blocks, hidden = keys.kinds("block_configs", layers), keys.required("hidden_size")
    parts: list[FeedForward] = []
    for block in blocks or ():
        own = block.get("ffn") if isinstance(block, Mapping) else None
        factor = own.get("ffn_mult") if isinstance(own, Mapping) else None
        width = own.get("intermediate_size") if isinstance(own, Mapping) else None
        if isinstance(factor, int | float):
            width = -(-int(2 * factor * hidden / 3) // 256) * 256
        skipped = isinstance(own, Mapping) and own.get("no_op")
        if not skipped and type(width) is not int:
            keys.refuse("block_configs", "a block without a known feed-forward part")
        parts.append(FeedForward(dense_width=width if type(width) is int and not skipped else None))
    return tuple(parts) or (FeedForward(),) * layers


_WHOLE: Mapping[str, Callable[[ConfigKeys, int, Settings], tuple[FeedForward, ...]]] = {
    "none": _none,
    "gemma4": _gemma4,
    "longcat": _longcat,
    "residual": _residual,
    "dbrx": _dbrx,
    "deci": _deci,
}


def dense_widths(keys: ConfigKeys, layers: int, settings: Settings) -> tuple[int | None, ...]:
    """One width a layer: the file's own list where it has one (Gemma 3n), else the same for all."""
    listed = keys.values.get("intermediate_size")
    if not isinstance(listed, list | tuple):
        return (dense_width(keys, settings),) * layers
    widths = keys.kinds("intermediate_size", layers)
    if widths is None or any(type(width) is not int or not 0 <= width <= LARGEST for width in widths):
        keys.refuse("intermediate_size", f"is no list of {layers} widths")
        return (None,) * layers
    return widths


def dense_width(keys: ConfigKeys, settings: Settings) -> int | None:
    key = settings.get("dense_width_key")
    width = keys.get(str(key)) if key else None
    if width is None and settings.get("lfm2") and (width := keys.get("block_ff_dim")) is not None:
        keys.ignore("intermediate_size")  # transformers 5.22.2 models/lfm2/configuration_lfm2.py: the older key wins
    if width is None:
        width = keys.get("intermediate_size")
    if isinstance(width, float):
        width = int(width)
    if settings.get("lfm2") and type(width) is int:
        width = _adjusted(keys, width)
    if width is None and settings.get("four_times"):
        return 4 * keys.required("hidden_size")
    return width if type(width) is int else None


def _adjusted(keys: ConfigKeys, width: int) -> int:
    """LFM2: two thirds of the width, times a factor, rounded up to a multiple."""
    if not keys.flag("block_auto_adjust_ff_dim", True):
        return width
    factor, multiple = keys.get("block_ffn_dim_multiplier"), keys.integer("block_multiple_of") or 256
    width = int(2 * width / 3)
    width = int(factor * width) if isinstance(factor, int | float) else width
    return -(-width // multiple) * multiple


def _mixture(keys: ConfigKeys, settings: Settings, dense: int | None) -> Mixture | None:
    count = _first_number(keys, COUNTS)
    if not count:
        return None
    active = _first_number(keys, ACTIVE)
    if active is None:
        keys.refuse("num_experts_per_tok", "absent")
    width = _first_number(keys, WIDTHS) or keys.integer("intermediate_size") or dense or 0
    if settings.get("dense_width_key") and keys.values.get("intermediate_size") == width:
        keys.ignore("intermediate_size")
    shared = _first_number(keys, SHARED_COUNTS) or int(settings.get("shared", 0))
    own = _first_number(keys, SHARED_WIDTHS)
    if own is not None and not shared:
        shared = 1 if own else 0
    shared_width = own if own is not None and not settings.get("shared_width_each") else shared * (own or width)
    return Mixture(count, active or 0, width, shared_width, shared)


def _first_number(keys: ConfigKeys, names: tuple[str, ...]) -> int | None:
    """A whole number; of a list (a value a layer) the largest, if all are one. Said twice it must be the same."""
    number = keys.get(*names)
    keys.ignore(*(name for name in names if name in keys.values and keys.values[name] == number))
    if isinstance(number, list | tuple):
        if not number or any(type(entry) is not int for entry in number):
            keys.refuse(names[0], "a list that is not of whole numbers")
            return None
        if len(set(number)) > 1:
            keys.refuse(next(name for name in names if name in keys.values), "differs between layers")
        return int(max(number))
    return keys.integer(*names)


def _everywhere(keys: ConfigKeys, layers: int, settings: Settings) -> tuple[bool, ...]:
    return (True,) * layers


# Lists with a switch a layer: MiMo-V2's and K-EXAONE's.
_LISTS = ("moe_layer_freq", "is_moe_layer")


def _first_dense(keys: ConfigKeys, layers: int, settings: Settings) -> tuple[bool, ...]:
    """DeepSeek and kin: dense up to `first_k_dense_replace`, then every `moe_layer_freq` layers; or a list."""
    listed = keys.kinds("mlp_layer_types", layers)
    if listed is not None:
        keys.ignore("first_k_dense_replace", "moe_layer_freq", "is_moe_layer")
        if settings.get("steps"):
            keys.ignore("decoder_sparse_step", "mlp_only_layers")
        if unknown := set(listed) - {"dense", "sparse", "moe", "hash_moe"}:
            keys.refuse("mlp_layer_types", f"{str(min(unknown, key=str))[:30]} is not known")
        return tuple(kind != "dense" for kind in listed)
    name = next((name for name in _LISTS if isinstance(keys.values.get(name), list)), None)
    if name is not None:
        placed = keys.kinds(name, layers)
        keys.ignore("first_k_dense_replace", "moe_layer_freq")
        return (True,) * layers if placed is None else tuple(bool(entry) for entry in placed)
    first = keys.integer(str(settings.get("first_key", "first_k_dense_replace")))
    if first is None:
        first = int(settings.get("first", 0))
    every = keys.integer("moe_layer_freq") or 1
    return tuple(index >= first and index % every == 0 for index in range(layers))


def _steps(keys: ConfigKeys, layers: int, settings: Settings) -> tuple[bool, ...]:
    """Qwen: every `decoder_sparse_step` layers, but for `mlp_only_layers`."""
    step, dense = keys.integer("decoder_sparse_step"), keys.numbers("mlp_only_layers") or ()
    step = 1 if step is None else step
    return tuple(step > 0 and index not in dense and (index + 1) % step == 0 for index in range(layers))


def _interleaved(keys: ConfigKeys, layers: int, settings: Settings) -> tuple[bool, ...]:
    """Llama 4: every `interleave_moe_layer_step` layers, or a list."""
    listed = keys.numbers("moe_layers")
    if listed is not None:
        keys.ignore("interleave_moe_layer_step")
        return tuple(index in listed for index in range(layers))
    step = keys.integer("interleave_moe_layer_step")
    step = 1 if step is None else step
    return tuple(step > 0 and (index + 1) % step == 0 for index in range(layers))


def _period(keys: ConfigKeys, layers: int, settings: Settings) -> tuple[bool, ...]:
    period, offset = keys.integer("expert_layer_period") or 1, keys.integer("expert_layer_offset") or 0
    return tuple(index % period == offset for index in range(layers))


def _range(keys: ConfigKeys, layers: int, settings: Settings) -> tuple[bool, ...]:
    """ERNIE: from `moe_layer_start_index` to `moe_layer_end_index`, every `moe_layer_interval`."""
    every = keys.integer("moe_layer_interval") or 1
    start, end = keys.get("moe_layer_start_index"), keys.get("moe_layer_end_index")
    first = min(start) if isinstance(start, list | tuple) and start else start
    last = max(end) if isinstance(end, list | tuple) and end else end
    first = first if type(first) is int else 0
    last = layers - 1 if type(last) is not int or last < 0 else last
    return tuple(first <= index <= last and (index + 1) % every == 0 for index in range(layers))


def _named_layers(keys: ConfigKeys, layers: int, settings: Settings) -> tuple[bool, ...]:
    """Step: `moe_layers_enum` is a list or a string of layer numbers."""
    listed = keys.kinds("mlp_layer_types", layers)
    if listed is not None:
        keys.ignore("moe_layers_enum")
        return tuple(kind != "dense" for kind in listed)
    named = keys.get("moe_layers_enum")
    if isinstance(named, str):
        named = [int(part) for part in named.split(",") if part.strip().isdigit()]
    if not isinstance(named, list | tuple):
        first = keys.integer("first_k_dense_replace")
        if first is None:
            first = int(settings.get("first", 3))
        keys.assume("moe_layers_enum", f"from layer {first} on", "the library's own pattern")
        return tuple(index >= first for index in range(layers))
    return tuple(index in named for index in range(layers))


PLACEMENTS: Mapping[str, Placement] = {
    "everywhere": _everywhere,
    "beside": _everywhere,
    "first-dense": _first_dense,
    "steps": _steps,
    "interleaved": _interleaved,
    "period": _period,
    "range": _range,
    "named-layers": _named_layers,
}
