"""GGUF keys -> Architecture."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from upright.errors import ReadError
from upright.reading.gguf import ArrayOf
from upright.reading.names import Family, family_of
from upright.records.model import (
    Architecture,
    Attention,
    Experts,
    GqaAttention,
    LinearAttention,
    MlaAttention,
    RopeScaling,
)

_LARGEST = 2**40
_MOST_LAYERS = 10_000


def architecture(metadata: Mapping[str, Any], file: str) -> Architecture:
    keys = Keys(metadata, file)
    family = family_of(keys.name)
    drafts = keys.integer("nextn_predict_layers") or 0
    layers = keys.required("block_count") - drafts  # block_count has the draft layers in it
    if not 0 < layers <= _MOST_LAYERS:
        raise ReadError(f"{file} is broken: {layers} layers")
    return Architecture(
        name=keys.name,
        family=family.id if family else None,
        layers=layers,
        hidden_size=keys.required("embedding_length"),
        vocabulary_size=_vocabulary(keys),
        context_limit_tokens=keys.integer("context_length"),
        attention=_attention(keys, layers, family),
        experts=_experts(keys),
        intermediate_size=keys.integer("feed_forward_length"),
        rope_scaling=_rope_scaling(keys),
        draft_layers=drafts,
    )


class Keys:
    """The keys of one architecture, with types and sizes checked."""

    def __init__(self, metadata: Mapping[str, Any], file: str) -> None:
        self.metadata = metadata
        self.file = file
        name = metadata.get("general.architecture")
        if not isinstance(name, str) or not name:
            raise ReadError(
                f"{file} does not say its architecture",
                hint="the first file of a split GGUF has it: name that one",
            )
        self.name = name

    def get(self, key: str) -> Any:
        return self.metadata.get(f"{self.name}.{key}")

    def integer(self, key: str) -> int | None:
        """A whole number; of an array (a value a layer) the largest."""
        value = self.get(key)
        if isinstance(value, tuple) and value and all(type(item) is int for item in value):
            value = max(value)
        if value is None:
            return None
        if type(value) is not int or not 0 <= value <= _LARGEST:
            raise ReadError(f"{self.file} is broken: {self.name}.{key} is {value!r}")
        return value

    def required(self, key: str) -> int:
        value = self.integer(key)
        if value is None:
            raise ReadError(f"{self.file} has no key {self.name}.{key}")
        return value

    def number(self, key: str) -> float | None:
        value = self.get(key)
        return float(value) if isinstance(value, int | float) else None


def _vocabulary(keys: Keys) -> int:
    tokens = keys.metadata.get("tokenizer.ggml.tokens")
    if isinstance(tokens, ArrayOf):
        return tokens.count
    if isinstance(tokens, tuple):
        return len(tokens)
    return keys.required("vocab_size")


def _experts(keys: Keys) -> Experts | None:
    count = keys.integer("expert_count")
    if not count:
        return None
    return Experts(
        count=count,
        active=keys.required("expert_used_count"),
        shared=keys.integer("expert_shared_count") or 0,
        first_moe_layer=keys.integer("leading_dense_block_count") or 0,
        intermediate_size=keys.integer("expert_feed_forward_length"),
    )


def _rope_scaling(keys: Keys) -> RopeScaling | None:
    kind = keys.get("rope.scaling.type")
    if not isinstance(kind, str) or kind == "none":
        return None
    return RopeScaling(
        kind=kind,
        factor=keys.number("rope.scaling.factor"),
        original_context_tokens=keys.integer("rope.scaling.original_context_length"),
    )


def _attention(keys: Keys, layers: int, family: Family | None) -> tuple[Attention, ...]:
    linear = _linear_layers(keys, layers)
    if keys.integer("attention.kv_lora_rank"):
        softmax: tuple[Attention, ...] = (_mla(keys, layers - linear),)
    else:
        softmax = _gqa(keys, layers - linear, family)
    return (_linear(keys, linear), *softmax) if linear else softmax


def _linear_layers(keys: Keys, layers: int) -> int:
    """How many layers are recurrent: all but every n-th, or those without KV heads."""
    if keys.integer("ssm.state_size") is None and keys.integer("kda.head_dim") is None:
        return 0
    if interval := keys.integer("full_attention_interval"):
        return layers - layers // interval
    per_layer = keys.get("attention.head_count_kv")
    return sum(1 for heads in per_layer[:layers] if heads == 0) if isinstance(per_layer, tuple) else 0


def _linear(keys: Keys, layers: int) -> LinearAttention:
    state, inner = keys.integer("ssm.state_size"), keys.integer("ssm.inner_size")
    kernel, groups = keys.integer("ssm.conv_kernel"), keys.integer("ssm.group_count")
    if not state or not inner or not kernel or groups is None:
        return LinearAttention(layers=layers)
    # Guard: llama.cpp b11669 llama-hparams.cpp n_embd_s and n_embd_r: both are kept in float32.
    conv = (kernel - 1) * (inner + 2 * groups * state)
    return LinearAttention(
        layers=layers, state_bytes=4 * (state * inner + conv), state_elements=state * inner, conv_elements=conv
    )


def _mla(keys: Keys, layers: int) -> MlaAttention:
    rope = keys.required("rope.dimension_count")
    # Guard: files from before llama.cpp's MLA (April 2025) have the unabsorbed widths in key_length, without _mla keys.
    head = keys.integer("attention.key_length_mla") or keys.required("attention.key_length")
    return MlaAttention(
        layers=layers,
        heads=keys.required("attention.head_count"),
        kv_lora_rank=keys.required("attention.kv_lora_rank"),
        rope_head_dim=rope,
        nope_head_dim=head - rope if head > rope else None,
        value_head_dim=keys.integer("attention.value_length_mla") or keys.integer("attention.value_length"),
        q_lora_rank=keys.integer("attention.q_lora_rank") or None,
        indexer_head_dim=keys.integer("attention.indexer.key_length"),
        indexer_top_k=keys.integer("attention.indexer.top_k"),
    )


def _gqa(keys: Keys, layers: int, family: Family | None) -> tuple[Attention, ...]:
    heads = keys.required("attention.head_count")
    if not heads:
        raise ReadError(f"{keys.file} is broken: no attention heads")
    key_width = keys.integer("attention.key_length") or keys.required("embedding_length") // heads
    full = GqaAttention(
        layers=layers,
        heads=heads,
        kv_heads=keys.integer("attention.head_count_kv") or heads,
        key_head_dim=key_width,
        value_head_dim=keys.integer("attention.value_length") or key_width,
    )
    window = keys.integer("attention.sliding_window")
    windowed = _windowed_layers(keys, layers, family) if window else 0
    if not windowed:
        return (full,)
    sliding = full.model_copy(update={"layers": windowed, "window_tokens": window})
    return (full.model_copy(update={"layers": layers - windowed}), sliding) if windowed < layers else (sliding,)


def _windowed_layers(keys: Keys, layers: int, family: Family | None) -> int:
    pattern = keys.get("attention.sliding_window_pattern")
    if isinstance(pattern, tuple):
        return sum(1 for sliding in pattern[:layers] if sliding)
    period = pattern if type(pattern) is int and pattern > 0 else family.sliding_window_period if family else None
    return layers - layers // period if period else layers
