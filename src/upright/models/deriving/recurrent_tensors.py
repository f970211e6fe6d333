"""A recurrent layer -> its tensors: projections, convolutions, decays."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from upright.facts.records.model import LinearAttention
from upright.models.deriving.tensor_builder import Sizes, TensorBuilder


def gdn(shelf: TensorBuilder, kind: LinearAttention, sizes: Sizes) -> None:
    keys, hidden = sizes.keys, sizes.hidden
    heads = keys.integer("linear_num_value_heads") or kind.heads or 1
    key_heads = keys.integer("linear_num_key_heads") or heads
    value_dim = keys.integer("linear_value_head_dim")
    key = keys.integer("linear_key_head_dim") or int(0.75 * hidden / key_heads)
    value_dim, kernel = value_dim or 2 * key, keys.integer("linear_conv_kernel_dim") or 4
    keyed, valued = key_heads * key, heads * value_dim
    if sizes.trait("split_gdn"):
        parts = {"in_proj_qkv": 2 * keyed + valued, "in_proj_z": valued, "in_proj_b": heads, "in_proj_a": heads}
    else:
        parts = {"in_proj_qkvz": 2 * keyed + 2 * valued, "in_proj_ba": 2 * heads}
    for name, rows in parts.items():
        shelf.linear("attention", f"linear_attn.{name}", rows, hidden)
    shelf.add("attention", "linear_attn.conv1d.weight", 2 * keyed + valued, 1, kernel)
    shelf.add("attention", "linear_attn.dt_bias", heads)
    shelf.add("attention", "linear_attn.A_log", heads)
    shelf.add("attention", "linear_attn.norm.weight", value_dim)
    shelf.linear("attention", "linear_attn.out_proj", hidden, valued)


def kda(shelf: TensorBuilder, kind: LinearAttention, sizes: Sizes) -> None:
    heads = kind.heads or 1
    width = round(((kind.state_elements or 0) / heads) ** 0.5)
    kernel = (kind.conv_elements or 0) // max(1, 3 * heads * width) + 1
    inner, hidden = heads * width, sizes.hidden
    part = sizes.keys.part("linear_attn_config")
    whole = bool(part and part.flag("use_full_rank_gate"))
    for name in ("q_proj", "k_proj", "v_proj"):
        shelf.linear("attention", f"self_attn.{name}", inner, hidden)
    shelf.add("attention", "self_attn.conv1d.weight", 3 * inner, 1, kernel)
    shelf.add("attention", "self_attn.dt_bias", inner)
    shelf.add("attention", "self_attn.A_log", heads)
    shelf.linear("attention", "self_attn.f_a_proj", width, hidden)
    shelf.linear("attention", "self_attn.f_b_proj", inner, width)
    shelf.linear("attention", "self_attn.b_proj", heads, hidden)
    if whole:
        shelf.linear("attention", "self_attn.g_proj", inner, hidden)
    else:
        shelf.linear("attention", "self_attn.g_a_proj", width, hidden)
        shelf.linear("attention", "self_attn.g_b_proj", inner, width)
    shelf.add("attention", "self_attn.o_norm.weight", width)
    shelf.linear("attention", "self_attn.o_proj", hidden, inner)


def mamba2(shelf: TensorBuilder, kind: LinearAttention, sizes: Sizes) -> None:
    keys, heads = sizes.keys, kind.heads or 1
    state = keys.integer("ssm_state_size", "mamba_d_state", "state_size") or 1
    groups = keys.integer("n_groups", "mamba_n_groups", "mamba_ngroups") or 1
    kernel = keys.integer("conv_kernel", "mamba_d_conv") or 4
    inner = (kind.state_elements or 0) // state
    wide = inner + 2 * groups * state
    biased = keys.flag("use_bias", False) or keys.flag("mamba_proj_bias", False)
    shelf.linear("attention", "mixer.in_proj", inner + wide + heads, sizes.hidden, bias=biased)
    shelf.add("attention", "mixer.conv1d.weight", wide, 1, kernel)
    if keys.flag("use_conv_bias", False) or keys.flag("mamba_conv_bias", False):
        shelf.add("attention", "mixer.conv1d.bias", wide)
    for name in ("dt_bias", "A_log", "D"):
        shelf.add("attention", f"mixer.{name}", heads)
    if "mixer_norm" not in sizes.traits or sizes.trait("mixer_norm"):
        shelf.add("attention", "mixer.norm.weight", inner)
    shelf.linear("attention", "mixer.out_proj", sizes.hidden, inner, bias=biased)


def mamba(shelf: TensorBuilder, kind: LinearAttention, sizes: Sizes) -> None:
    keys, hidden = sizes.keys, sizes.hidden
    state = keys.integer("mamba_d_state", "state_size") or 1
    kernel, inner = keys.integer("mamba_d_conv", "conv_kernel") or 4, (kind.state_elements or 0) // state
    rank = keys.get("mamba_dt_rank", "time_step_rank")
    rank = rank if type(rank) is int else -(-hidden // 16)
    biased = keys.flag("mamba_proj_bias", False) or keys.flag("use_bias", False)
    shelf.linear("attention", "mamba.in_proj", 2 * inner, hidden, bias=biased)
    shelf.add("attention", "mamba.conv1d.weight", inner, 1, kernel)
    if keys.flag("mamba_conv_bias", False) or keys.flag("use_conv_bias", False):
        shelf.add("attention", "mamba.conv1d.bias", inner)
    shelf.linear("attention", "mamba.x_proj", rank + 2 * state, inner)
    shelf.linear("attention", "mamba.dt_proj", inner, rank, bias=True)
    shelf.add("attention", "mamba.A_log", inner, state)
    shelf.add("attention", "mamba.D", inner)
    shelf.linear("attention", "mamba.out_proj", hidden, inner, bias=biased)
    if sizes.trait("mamba_norms"):
        for name, width in (("dt_layernorm", rank), ("b_layernorm", state), ("c_layernorm", state)):
            shelf.add("attention", f"mamba.{name}.weight", width)


def lightning(shelf: TensorBuilder, kind: LinearAttention, sizes: Sizes) -> None:
    heads = kind.heads or 1
    inner = heads * round(((kind.state_elements or 0) / heads) ** 0.5)
    shelf.linear("attention", "self_attn.qkv_proj", 3 * inner, sizes.hidden)
    shelf.linear("attention", "self_attn.output_gate", inner, sizes.hidden)
    shelf.add("attention", "self_attn.norm.weight", inner)
    shelf.linear("attention", "self_attn.out_proj", sizes.hidden, inner)


def conv(shelf: TensorBuilder, kind: LinearAttention, sizes: Sizes) -> None:
    if sizes.trait("streams"):
        _streams(shelf, kind, sizes)
        return
    kernel, hidden = sizes.keys.integer("conv_L_cache") or 3, sizes.hidden
    biased = sizes.keys.flag("conv_bias", False)
    shelf.linear("attention", "conv.in_proj", 3 * hidden, hidden, bias=biased)
    shelf.add("attention", "conv.conv.weight", hidden, 1, kernel)
    if biased:
        shelf.add("attention", "conv.conv.bias", hidden)
    shelf.linear("attention", "conv.out_proj", hidden, hidden, bias=biased)


def _streams(shelf: TensorBuilder, kind: LinearAttention, sizes: Sizes) -> None:
    """Inkling: convolutions on keys, values and both outputs, a channel each."""
    kernel = sizes.keys.integer("sconv_kernel_size") or 4
    width = kind.state_elements or 0
    for name, channels in (("k_sconv", width), ("v_sconv", width), ("attn_sconv", sizes.hidden)):
        shelf.add("attention", f"self_attn.{name}.conv1d.weight", channels, 1, kernel)
    shelf.add("attention", "mlp_sconv.conv1d.weight", sizes.hidden, 1, kernel)


RULES: Mapping[str, Callable[[TensorBuilder, LinearAttention, Sizes], None]] = {
    "gdn": gdn,
    "kda": kda,
    "mamba2": mamba2,
    "mamba": mamba,
    "lightning": lightning,
    "conv": conv,
}
