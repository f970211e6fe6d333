"""The tensors of a layer by attention and feed-forward kind: name, group and shape.

Traits in a family's row say what its layers have beyond the plain projections. Experts of a layer are one entry with a
count. Names are those of Hugging Face checkpoints, without the prefix that a wrapper puts before them.
"""

from __future__ import annotations

from collections.abc import Iterator

from upright.facts.records.model import (
    Attention,
    CompressedAttention,
    GqaAttention,
    Group,
    LinearAttention,
    MlaAttention,
)
from upright.models.deriving.feedforward import FeedForward, Mixture
from upright.models.deriving.keys import ConfigKeys
from upright.models.deriving.recurrent_tensors import RULES
from upright.models.deriving.tensor_builder import DerivedTensor, Sizes, TensorBuilder


def gqa(shelf: TensorBuilder, kind: GqaAttention, sizes: Sizes) -> None:
    keys, hidden, width = sizes.keys, sizes.hidden, kind.key_head_dim
    if sizes.trait("latent"):
        mla(shelf, _latent_like(kind, keys), sizes)
        return
    biased = keys.flag("attention_bias", False) or sizes.trait("qkv_bias")
    out_biased = sizes.trait("o_bias") if "o_bias" in sizes.traits else biased
    gated = 2 if sizes.trait("q_gate") else 1
    rank = keys.integer(str(sizes.traits["query_rank"])) if "query_rank" in sizes.traits else None
    if rank:  # Step-3: queries through a narrow matrix, with a norm between
        shelf.linear("attention", "self_attn.q_down_proj", rank, hidden)
        shelf.add("attention", "self_attn.inter_norm.weight", rank)
    shelf.linear("attention", "self_attn.q_proj", gated * kind.heads * width, rank or hidden, bias=biased)
    shelf.linear("attention", "self_attn.k_proj", kind.kv_heads * width, hidden, bias=biased)
    if not (sizes.trait("k_eq_v") and keys.flag("attention_k_eq_v") and kind.window_tokens is None):
        shelf.linear("attention", "self_attn.v_proj", kind.kv_heads * kind.value_head_dim, hidden, bias=biased)
    shelf.linear("attention", "self_attn.o_proj", hidden, kind.heads * kind.value_head_dim, bias=out_biased)
    qk_norms(shelf, kind, sizes)
    if sizes.trait("sinks") or (sizes.trait("window_sinks") and kind.window_tokens):
        shelf.add("attention", "self_attn.sinks", kind.heads)
    if gate := output_gate(sizes):
        rows = kind.heads if gate == "heads" else kind.heads * kind.value_head_dim
        shelf.linear("attention", "self_attn.gate_proj", rows, hidden)
    if sizes.trait("inner_norms"):
        shelf.add("attention", "self_attn.attn_sub_norm.weight", hidden)
    if sizes.trait("streams"):
        relative(shelf, kind, sizes)
    if kind.indexer_head_dim:
        block_indexer(shelf, kind, sizes)


def _latent_like(kind: GqaAttention, keys: ConfigKeys) -> MlaAttention:
    """Weights of latent attention behind a cache of whole heads (MiniCPM3)."""
    return MlaAttention(
        layers=1,
        heads=kind.heads,
        kv_lora_rank=keys.required("kv_lora_rank"),
        rope_head_dim=keys.required("qk_rope_head_dim"),
        nope_head_dim=keys.integer("qk_nope_head_dim"),
        value_head_dim=keys.integer("v_head_dim") or keys.required("hidden_size") // max(1, kind.heads),
        q_lora_rank=keys.integer("q_lora_rank"),
    )


def output_gate(sizes: Sizes) -> str | None:
    """A number a head, or one a value; a family's files may say which, or that there is none (Laguna)."""
    form = sizes.traits.get("gate")
    if form != "by gating":
        return str(form) if form else None
    stated = sizes.keys.get("gating")
    if stated is None or stated is False:
        return None
    return "heads" if stated is True or stated in ("per-head", "per_head") else "wide"


def relative(shelf: TensorBuilder, kind: GqaAttention, sizes: Sizes) -> None:
    """Inkling: relative positions, and a convolution on keys and values."""
    width = sizes.keys.integer("d_rel") or 16
    extent = kind.window_tokens or sizes.keys.integer("rel_extent") or 1024
    shelf.linear("attention", "self_attn.r_proj", kind.heads * width, sizes.hidden)
    shelf.add("attention", "self_attn.rel_logits_proj.proj", width, extent)


def qk_norms(shelf: TensorBuilder, kind: GqaAttention, sizes: Sizes) -> None:
    form = sizes.traits.get("qk_norm")
    if form is None or (isinstance(form, str) and form.startswith("if ") and not sizes.keys.flag(form[3:])):
        return
    if form == "full":
        shelf.add("attention", "self_attn.q_norm.weight", kind.heads * kind.key_head_dim)
        shelf.add("attention", "self_attn.k_norm.weight", kind.kv_heads * kind.key_head_dim)
    elif form == "q":
        shelf.add("attention", "self_attn.q_norm.weight", kind.key_head_dim)
    elif form == "matrix":
        shelf.add("attention", "self_attn.q_norm.weight", kind.heads, kind.key_head_dim)
        shelf.add("attention", "self_attn.k_norm.weight", kind.kv_heads, kind.key_head_dim)
    else:
        for name in ("q_norm", "k_norm"):
            shelf.add("attention", f"self_attn.{name}.weight", kind.key_head_dim)
            if sizes.trait("qk_norm_bias"):
                shelf.add("attention", f"self_attn.{name}.bias", kind.key_head_dim)


def block_indexer(shelf: TensorBuilder, kind: GqaAttention, sizes: Sizes) -> None:
    """MiniMax M3: query and key heads of the index; QSA: the same from a shared projection."""
    part = sizes.keys.part("sparse_attention_config")
    source, names = (part, ("sparse_num_index_heads",)) if part else (sizes.keys, ("index_n_heads", "indexer_n_heads"))
    heads, width = source.integer(*names) or 1, kind.indexer_head_dim or 0
    shelf.linear("indexer", "self_attn.indexer.q_proj", heads * width, sizes.hidden)
    shelf.linear("indexer", "self_attn.indexer.k_proj", width, sizes.hidden)
    shelf.add("indexer", "self_attn.indexer.q_norm.weight", width)
    shelf.add("indexer", "self_attn.indexer.k_norm.weight", width)


def mla(shelf: TensorBuilder, kind: MlaAttention, sizes: Sizes) -> None:
    hidden, nope, value_dim = sizes.hidden, kind.nope_head_dim or 0, kind.value_head_dim or 0
    biased = sizes.keys.flag("attention_bias", False)
    queries = kind.heads * (nope + kind.rope_head_dim)
    if kind.q_lora_rank:
        shelf.linear("attention", "self_attn.q_a_proj", kind.q_lora_rank, hidden, bias=biased)
        shelf.add("attention", "self_attn.q_a_layernorm.weight", kind.q_lora_rank)
        shelf.linear("attention", "self_attn.q_b_proj", queries, kind.q_lora_rank)
    else:
        shelf.linear("attention", "self_attn.q_proj", queries, hidden)
    latent = kind.kv_lora_rank + kind.rope_head_dim
    shelf.linear("attention", "self_attn.kv_a_proj_with_mqa", latent, hidden, bias=biased)
    shelf.add("attention", "self_attn.kv_a_layernorm.weight", kind.kv_lora_rank)
    shelf.linear("attention", "self_attn.kv_b_proj", kind.heads * (nope + value_dim), kind.kv_lora_rank)
    shelf.linear("attention", "self_attn.o_proj", hidden, kind.heads * value_dim, bias=biased)
    if sizes.trait("mla_gate"):
        rows = kind.heads if sizes.keys.word("gating_type") == "headwise" else kind.heads * value_dim
        shelf.linear("attention", "self_attn.linear_gate", rows, hidden)
    if sizes.trait("sinks"):
        shelf.add("attention", "self_attn.sinks", kind.heads)
    if kind.indexer_head_dim:
        indexer(shelf, kind, sizes)
    elif kind.sparse:
        sizes.keys.ignore("index_n_heads")


def indexer(shelf: TensorBuilder, kind: MlaAttention, sizes: Sizes) -> None:
    heads, width = sizes.keys.integer("index_n_heads") or 1, kind.indexer_head_dim or 0
    shelf.linear("indexer", "self_attn.indexer.wq_b", heads * width, kind.q_lora_rank or sizes.hidden)
    shelf.linear("indexer", "self_attn.indexer.wk", width, sizes.hidden)
    shelf.add("indexer", "self_attn.indexer.k_norm.weight", width)
    shelf.add("indexer", "self_attn.indexer.k_norm.bias", width)
    shelf.linear("indexer", "self_attn.indexer.weights_proj", heads, sizes.hidden)
    if kind.indexer_every_tokens > 1:
        shelf.add("indexer", "self_attn.indexer.index_kpool_compress_ape", kind.indexer_every_tokens, width)
        shelf.linear("indexer", "self_attn.indexer.index_kpool_compress_gate", width, sizes.hidden)


def compressed(shelf: TensorBuilder, kind: CompressedAttention, sizes: Sizes) -> None:
    """DeepSeek V4: one key head, low-rank queries and outputs, a compressor and its indexer."""
    keys, hidden, width = sizes.keys, sizes.hidden, kind.head_dim
    rank, groups = keys.integer("q_lora_rank") or 0, keys.integer("o_groups") or 1
    out_rank = keys.integer("o_lora_rank") or 0
    shelf.add("attention", "self_attn.sinks", kind.heads)
    shelf.linear("attention", "self_attn.q_a_proj", rank, hidden)
    shelf.add("attention", "self_attn.q_a_norm.weight", rank)
    shelf.linear("attention", "self_attn.q_b_proj", kind.heads * width, rank)
    shelf.linear("attention", "self_attn.kv_proj", width, hidden)
    shelf.add("attention", "self_attn.kv_norm.weight", width)
    shelf.linear("attention", "self_attn.o_a_proj", groups * out_rank, kind.heads * width // groups)
    shelf.linear("attention", "self_attn.o_b_proj", hidden, groups * out_rank)
    if not kind.ratio:
        keys.ignore("index_n_heads")
        return
    twice = 2 if kind.ratio == 4 else 1
    compressor(shelf, "attention", "self_attn.compressor", width, kind.ratio, twice, sizes)
    if kind.indexer_head_dim:
        count = keys.integer("index_n_heads") or 1
        name = "self_attn.compressor.indexer"
        compressor(shelf, "indexer", name, kind.indexer_head_dim, kind.ratio, twice, sizes)
        shelf.linear("indexer", f"{name}.q_b_proj", count * kind.indexer_head_dim, rank)
        shelf.linear("indexer", f"{name}.weights_proj", count, hidden)


def compressor(shelf: TensorBuilder, group: Group, name: str, width: int, ratio: int, twice: int, sizes: Sizes) -> None:
    shelf.add(group, f"{name}.position_bias", ratio, twice * width)
    shelf.linear(group, f"{name}.kv_proj", twice * width, sizes.hidden)
    shelf.linear(group, f"{name}.gate_proj", twice * width, sizes.hidden)
    shelf.add(group, f"{name}.kv_norm.weight", width)


def dense(shelf: TensorBuilder, width: int, sizes: Sizes, name: str = "mlp", group: Group = "dense_ffn") -> None:
    biased = sizes.trait("mlp_bias")
    if sizes.traits.get("mlp", "gated") == "gated":
        shelf.linear(group, f"{name}.gate_proj", width, sizes.hidden, bias=biased)
    shelf.linear(group, f"{name}.up_proj", width, sizes.hidden, bias=biased)
    shelf.linear(group, f"{name}.down_proj", sizes.hidden, width, bias=biased)


def mixture(shelf: TensorBuilder, experts: Mixture, sizes: Sizes, place: str = "mlp.") -> None:
    hidden, gated = sizes.hidden, sizes.traits.get("mlp", "gated") == "gated"
    inner = _latent(shelf, sizes) or hidden
    biased = sizes.trait("expert_bias")
    routed = experts.count + (sizes.keys.integer("zero_expert_num") or 0 if sizes.trait("zero_experts") else 0)
    shelf.linear("router", "mlp.gate", routed, hidden, bias=sizes.trait("router_bias"))
    hashed = sizes.keys.integer("num_hash_layers") or 0 if sizes.trait("hashed") else 0
    if sizes.trait("correction_bias") and (shelf.layer or 0) >= hashed:
        shelf.add("router", "mlp.gate.e_score_correction_bias", routed)
    if sizes.trait("router_scales"):
        shelf.add("router", "router.scale", hidden)
        shelf.add("router", "router.per_expert_scale", experts.count)
    for name in ("gate_proj", "up_proj") if gated else ("up_proj",):
        label = f"{place}experts.{name}"
        shelf.linear("routed_experts", label, experts.width, inner, bias=biased, count=experts.count)
    label = f"{place}experts.down_proj"
    shelf.linear("routed_experts", label, inner, experts.width, bias=biased, count=experts.count)
    if experts.shared_width:
        dense(shelf, experts.shared_width, sizes, "mlp.shared_experts", "shared_experts")
        if sizes.trait("shared_gate"):
            shelf.linear("shared_experts", "mlp.shared_expert_gate", 1, hidden)


def _latent(shelf: TensorBuilder, sizes: Sizes) -> int | None:
    """Experts in a narrower space, with projections into it and out of it (Nemotron 3, Kimi K3)."""
    narrow = sizes.keys.integer("moe_latent_size", "routed_expert_hidden_size")
    if not narrow:
        return None
    shelf.linear("router", "mlp.fc1_latent_proj", narrow, sizes.hidden)
    shelf.linear("router", "mlp.fc2_latent_proj", sizes.hidden, narrow)
    if sizes.keys.flag("latent_moe_use_norm"):
        shelf.add("router", "mlp.latent_norm.weight", narrow)
    return narrow


def feedforward_tensors(shelf: TensorBuilder, part: FeedForward, sizes: Sizes) -> None:
    if part.dense_width:
        for copy in range(int(sizes.traits.get("mlps", 1))):
            name = "mlp" if not copy else f"mlps.{copy}"
            dense(shelf, part.dense_width // int(sizes.traits.get("mlps", 1)), sizes, name)
    if part.mixture:
        beside = part.dense_width and "mlps" not in sizes.traits
        mixture(shelf, part.mixture, sizes, "" if beside else "mlp.")


def norms(shelf: TensorBuilder, sizes: Sizes, count: int) -> None:
    named = ("input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm", "post_feedforward_layernorm")
    for index in range(count):
        name = named[index] if index < len(named) else f"post_feedforward_layernorm_{index - len(named) + 1}"
        shelf.add("norm", f"{name}.weight", sizes.hidden)
        if sizes.trait("norm_bias"):
            shelf.add("norm", f"{name}.bias", sizes.hidden)


def attention_residuals(shelf: TensorBuilder, sizes: Sizes) -> None:
    """Kimi K3: before each part a weighted look back at earlier blocks of layers."""
    for name in ("self_attention_res", "mlp_res"):
        shelf.add("norm", f"{name}_norm.weight", sizes.hidden)
        shelf.add("norm", f"{name}_proj.weight", 1, sizes.hidden)


def hyper_connections(shelf: TensorBuilder, sizes: Sizes) -> None:
    """Several residual streams, mixed before and after each part: mHC of DeepSeek V4 and GLM-5.3-Flash; HY-V4's are
    independent of one another."""
    streams = sizes.keys.integer("hc_mult") or 1
    alone = sizes.traits.get("hyper") == "independent"
    rows, scales = (2 * streams, 2) if alone else (streams * (streams + 2), 3)
    for name in ("attn_hc", "ffn_hc"):
        shelf.add("norm", f"{name}.fn", rows, streams * sizes.hidden)
        shelf.add("norm", f"{name}.base", rows)
        shelf.add("norm", f"{name}.scale", scales)


def attention(shelf: TensorBuilder, kind: Attention, sizes: Sizes) -> None:
    if isinstance(kind, GqaAttention):
        gqa(shelf, kind, sizes)
    elif isinstance(kind, MlaAttention):
        mla(shelf, kind, sizes)
    elif isinstance(kind, CompressedAttention):
        compressed(shelf, kind, sizes)
    elif isinstance(kind, LinearAttention) and kind.rule is not None:
        RULES[kind.rule](shelf, kind, sizes)
    elif kind.kind == "shared":
        width = kind.head_dim or sizes.keys.integer("head_dim") or sizes.hidden // kind.heads
        shelf.linear("attention", "self_attn.q_proj", kind.heads * width, sizes.hidden)
        shelf.linear("attention", "self_attn.o_proj", sizes.hidden, kind.heads * width)
        shelf.add("attention", "self_attn.q_norm.weight", width)


def outer_tensors(sizes: Sizes, vocabulary: int) -> Iterator[DerivedTensor]:
    """What lies outside the layers."""
    hidden = sizes.hidden
    yield DerivedTensor("embedding", None, "embed_tokens.weight", (vocabulary, hidden))
    if not sizes.tied:
        yield DerivedTensor("output", None, "lm_head.weight", (vocabulary, hidden))
        if sizes.trait("head_bias"):
            yield DerivedTensor("output", None, "lm_head.bias", (vocabulary,))
    if sizes.trait("no_final_norm"):
        return
    yield DerivedTensor("norm", None, "norm.weight", (hidden,))
    if sizes.trait("norm_bias"):
        yield DerivedTensor("norm", None, "norm.bias", (hidden,))
