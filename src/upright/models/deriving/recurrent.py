"""Keys -> the state that a recurrent layer keeps of a sequence, in numbers.

Shapes as in vLLM 0.32.0 model_executor/layers/mamba/mamba_utils.py, SGLang 0.5.23 srt/configs/mamba_utils.py and
llama.cpp b21e4de7 llama-hparams.cpp, which agree. Which type the numbers are stored in is the engine's matter.
"""

from __future__ import annotations

from collections.abc import Mapping

from upright.facts.records.model import Attention, GqaAttention, LinearAttention, Recurrence
from upright.models.deriving.attention import Builder, LayerPlace, gqa, gqa_other_window, heads
from upright.models.deriving.keys import ConfigKeys

STATE_TYPES = ("float32", "bfloat16", "float16")


def gdn(keys: ConfigKeys, place: LayerPlace) -> tuple[Attention, ...]:
    """Gated DeltaNet: a matrix a value head, and the last inputs of the convolution."""
    value_heads, key_heads = keys.integer("linear_num_value_heads"), keys.integer("linear_num_key_heads")
    key, value_width = keys.integer("linear_key_head_dim"), keys.integer("linear_value_head_dim")
    if place.settings.get("linear_like_attention"):
        query = keys.required("num_attention_heads")
        value_heads, key_heads = value_heads or query, key_heads or query
        key = key or int(0.75 * keys.required("hidden_size") / key_heads)
        value_width = value_width or 2 * key
    kernel = keys.integer("linear_conv_kernel_dim")
    if not (value_heads and key_heads and key and value_width and kernel):
        return _unknown(keys, "linear_num_value_heads")
    conv = (kernel - 1) * (2 * key_heads * key + value_heads * value_width)
    return (
        _state("gdn", value_heads * key * value_width, conv, _state_type(keys, place, "mamba_ssm_dtype"), value_heads),
    )


def kda(keys: ConfigKeys, place: LayerPlace) -> tuple[Attention, ...]:
    """Kimi Delta Attention: a square matrix a head, three convolutions."""
    part = keys.part("linear_attn_config")
    if part is not None:
        count, width = part.integer("num_heads"), part.integer("head_dim")
        kernel = part.integer("short_conv_kernel_size")
    elif place.settings.get("linear_like_attention"):
        count, width = keys.integer("num_attention_heads"), keys.integer("head_dim")
        kernel = keys.integer("short_conv_kernel_size")
    else:
        count, width = keys.integer("linear_num_heads"), keys.integer("linear_head_dim")
        kernel = keys.integer("linear_conv_kernel_dim", "short_conv_kernel_size")
    if not (count and width and kernel):
        return _unknown(keys, "linear_attn_config")
    source = part if part is not None else keys
    bounded = source.get("gate_lower_bound", "kda_lower_bound", "linear_lower_bound") is not None
    state = _state("kda", count * width * width, (kernel - 1) * 3 * count * width, None, count)
    return (state.model_copy(update={"gate_bounded": bounded}),)


def mamba2(keys: ConfigKeys, place: LayerPlace) -> tuple[Attention, ...]:
    """Mamba-2: a state a head, and a convolution over the inner width with its groups."""
    count = keys.integer("mamba_num_heads", "mamba_n_heads", "n_mamba_heads")
    if count is None and place.settings.get("bare_names"):
        count = keys.integer("num_heads")
    state = keys.integer("ssm_state_size", "mamba_d_state", "state_size")
    groups = keys.integer("n_groups", "mamba_n_groups", "mamba_ngroups")
    kernel = keys.integer("conv_kernel", "mamba_d_conv")
    inner, width = _inner(keys, place, count)
    if not (count and state and groups and kernel and inner and width):
        return _unknown(keys, "mamba_num_heads")
    conv = (kernel - 1) * (inner + 2 * groups * state)
    return (_state("mamba2", count * width * state, conv, _state_type(keys, place, "mamba_ssm_cache_dtype"), count),)


def _inner(keys: ConfigKeys, place: LayerPlace, count: int | None) -> tuple[int | None, int | None]:
    """The inner width and the width of a head."""
    width = keys.get("mamba_head_dim", "mamba_d_head", "mamba_headdim")
    if width is None and place.settings.get("bare_names"):
        width = keys.get("head_dim")
    inner = keys.integer("mamba_d_ssm") if place.settings.get("d_ssm") else None
    if not inner and place.settings.get("inner_by_heads") and count and type(width) is int:
        keys.ignore("expand", "mamba_expand")
        return count * width, width
    expand = keys.get("expand", "mamba_expand")
    if not inner and isinstance(expand, int | float):
        inner = int(expand * keys.required("hidden_size"))
    elif inner:
        keys.ignore("mamba_expand")
    if width in (None, "auto") and inner and count:
        width = inner // count
    return inner, width if type(width) is int else None


def mamba(keys: ConfigKeys, place: LayerPlace) -> tuple[Attention, ...]:
    """Mamba-1: a state a channel."""
    expand = keys.get("mamba_expand", "expand")
    inner = keys.integer("intermediate_size") if place.settings.get("bare_names") else None
    if isinstance(expand, int | float):
        inner = inner or int(expand * keys.required("hidden_size"))
    state, kernel = keys.integer("mamba_d_state", "state_size"), keys.integer("mamba_d_conv", "conv_kernel")
    if not (inner and state and kernel):
        return _unknown(keys, "mamba_expand")
    return (_state("mamba", inner * state, (kernel - 1) * inner, None, inner),)


def lightning(keys: ConfigKeys, place: LayerPlace) -> tuple[Attention, ...]:
    """Lightning attention: a square matrix a head, no convolution."""
    count = keys.required("num_attention_heads")
    width = keys.integer("head_dim") or keys.required("hidden_size") // max(1, count)
    return (_state("lightning", count * width * width, 0, None, count),)


def conv(keys: ConfigKeys, place: LayerPlace) -> tuple[Attention, ...]:
    """LFM2: a short convolution and nothing else."""
    kernel = keys.integer("conv_L_cache")
    if not kernel:
        return _unknown(keys, "conv_L_cache")
    width = keys.integer("conv_dim") or keys.required("hidden_size")
    return (_state("conv", 0, (kernel - 1) * width, None, width),)


def gqa_and_mamba2(keys: ConfigKeys, place: LayerPlace) -> tuple[Attention, ...]:
    """Falcon-H1: both mixers side by side in every layer."""
    return (*gqa(keys, place), *mamba2(keys, place))


def zamba(keys: ConfigKeys, place: LayerPlace) -> tuple[Attention, ...]:
    """Zamba2: an attention over twice the width, shared weights but a cache of its own, before a Mamba-2 mixer."""
    query = keys.required("num_attention_heads")
    width = 2 * keys.required("hidden_size") // max(1, query)
    keys.ignore("attention_head_dim", "num_key_value_heads")
    shared = GqaAttention(
        layers=1,
        heads=query,
        kv_heads=query,
        key_head_dim=width,
        value_head_dim=width,
    )
    return (shared, *mamba2(keys, place))


def inkling(keys: ConfigKeys, place: LayerPlace) -> tuple[Attention, ...]:
    return (*gqa(keys, place), _streams(keys, heads(keys, place)))


def inkling_window(keys: ConfigKeys, place: LayerPlace) -> tuple[Attention, ...]:
    (sliding,) = gqa_other_window(keys, place)
    assert isinstance(sliding, GqaAttention)
    return (sliding, _streams(keys, sliding))


def _streams(keys: ConfigKeys, kind: GqaAttention) -> LinearAttention:
    """Four short convolutions a layer, packed a head, the width rounded up to a power of two (Inkling)."""
    kernel = keys.integer("sconv_kernel_size") or 4
    packed = 2 * kind.key_head_dim + 2 * (keys.required("hidden_size") // max(1, kind.kv_heads))
    width = 1 << max(0, packed - 1).bit_length()
    return _state("conv", 0, kernel * kind.kv_heads * width, None, kind.kv_heads)


def _state(rule: Recurrence, state: int, conv: int, dtype: str | None, count: int) -> LinearAttention:
    return LinearAttention(
        layers=1,
        state_bytes=4 * (state + conv),
        state_elements=state,
        conv_elements=conv,
        rule=rule,
        state_dtype=dtype,
        heads=count,
    )


def _state_type(keys: ConfigKeys, place: LayerPlace, name: str) -> str | None:
    """As the file says, else as the engine's class for this family says, else the engine's own default."""
    dtype = keys.word(name)
    if dtype is None and name not in keys.values:
        dtype = str(place.settings.get("state_dtype", "auto"))
        keys.assume(name, dtype, "the engine's own type for this family")
    if dtype is not None and dtype not in (*STATE_TYPES, "auto"):
        keys.refuse(name, f"{dtype[:20]} is no type of a state")
        return None
    return None if dtype == "auto" else dtype


def _unknown(keys: ConfigKeys, name: str) -> tuple[Attention, ...]:
    keys.refuse(name, "the size of the recurrent state is not there")
    return (LinearAttention(layers=1),)


RECURRENT: Mapping[str, Builder] = {
    "gdn": gdn,
    "kda": kda,
    "mamba2": mamba2,
    "mamba": mamba,
    "lightning": lightning,
    "conv": conv,
    "gqa-and-mamba2": gqa_and_mamba2,
    "zamba": zamba,
    "inkling": inkling,
    "inkling-window": inkling_window,
}
