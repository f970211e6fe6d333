"""config.json -> Architecture.

Names of fields differ between families, their meaning does not: each fact has the names it goes by, most common first.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

from upright.errors import ReadError
from upright.reading.names import Family, family_of
from upright.records.model import (
    Architecture,
    Attention,
    CompressedAttention,
    Experts,
    GqaAttention,
    LinearAttention,
    MlaAttention,
    RopeScaling,
)

_LARGEST = 2**40
_MOST_LAYERS = 10_000
_TEXT_PARTS = ("text_config", "llm_config", "language_config")
CONFIG_LIMIT_BYTES = 4_000_000


def parse_config(text: bytes, file: str) -> Mapping[str, Any]:
    try:
        config = json.loads(text.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        raise ReadError(f"{file} is not JSON") from None
    if not isinstance(config, dict):
        raise ReadError(f"{file} is not a model's configuration")
    return config


def architecture(config: Mapping[str, Any], file: str) -> Architecture:
    part = next((config[name] for name in _TEXT_PARTS if isinstance(config.get(name), Mapping)), config)
    fields = Fields(part, file)
    name = _name(config) or _name(part)
    if name is None:
        raise ReadError(f"{file} does not say its architecture (`architectures`)")
    family = family_of(name) or family_of(_name(part) or name)
    layers = fields.required("num_hidden_layers")
    if not 0 < layers <= _MOST_LAYERS:
        raise ReadError(f"{file} is broken: {layers} layers")
    return Architecture(
        name=name,
        family=family.id if family else None,
        layers=layers,
        hidden_size=fields.required("hidden_size"),
        vocabulary_size=fields.required("vocab_size"),
        context_limit_tokens=fields.integer("max_position_embeddings"),
        attention=_attention(fields, layers, family),
        experts=_experts(fields, layers),
        intermediate_size=fields.integer("intermediate_size"),
        rope_scaling=_rope_scaling(part),
        draft_layers=fields.integer("num_nextn_predict_layers", "mtp_num_hidden_layers") or 0,
        vision=isinstance(config.get("vision_config"), Mapping),
    )


class Fields:
    """Whole numbers of a configuration, checked."""

    def __init__(self, values: Mapping[str, Any], file: str) -> None:
        self.values = values
        self.file = file

    def integer(self, *names: str) -> int | None:
        for name in names:
            value = self.values.get(name)
            if value is None:
                continue
            if type(value) is not int or not 0 <= value <= _LARGEST:
                raise ReadError(f"{self.file} is broken: {name} is {str(value)[:60]}")
            return value
        return None

    def required(self, *names: str) -> int:
        value = self.integer(*names)
        if value is None:
            raise ReadError(f"{self.file} has no {names[0]}")
        return value

    def kinds(self, name: str, layers: int) -> list[Any] | None:
        """A list with a value for each layer (more are draft layers), or None."""
        value = self.values.get(name)
        return value[:layers] if isinstance(value, list) and len(value) >= layers else None


def _name(config: Mapping[str, Any]) -> str | None:
    names = config.get("architectures")
    return names[0] if isinstance(names, list) and names and isinstance(names[0], str) else None


def _experts(fields: Fields, layers: int) -> Experts | None:
    count = fields.integer("n_routed_experts", "num_experts", "num_local_experts")
    if not count:
        return None
    shared = fields.integer("n_shared_experts", "num_shared_experts")
    if shared is None:
        shared = 1 if fields.integer("shared_expert_intermediate_size", "shared_intermediate_size") else 0
    return Experts(
        count=count,
        active=fields.required("num_experts_per_tok", "experts_per_token", "num_experts_per_token"),
        shared=shared,
        first_moe_layer=_first_moe_layer(fields, layers),
        intermediate_size=fields.integer("moe_intermediate_size", "intermediate_size"),
    )


def _first_moe_layer(fields: Fields, layers: int) -> int:
    if (dense := fields.integer("first_k_dense_replace")) is not None:
        return dense
    kinds = fields.kinds("mlp_layer_types", layers) or []
    return next((index for index, kind in enumerate(kinds) if kind != "dense"), 0)


def _rope_scaling(part: Mapping[str, Any]) -> RopeScaling | None:
    for name in ("rope_scaling", "rope_parameters"):
        scaling = part.get(name)
        if isinstance(scaling, Mapping):
            kind = scaling.get("rope_type") or scaling.get("type")
            if not isinstance(kind, str) or kind == "default":
                return None
            factor, original = scaling.get("factor"), scaling.get("original_max_position_embeddings")
            return RopeScaling(
                kind=kind,
                factor=float(factor) if isinstance(factor, int | float) else None,
                original_context_tokens=original if type(original) is int else None,
            )
    return None


def _attention(fields: Fields, layers: int, family: Family | None) -> tuple[Attention, ...]:
    if isinstance(fields.values.get("compress_ratios"), list) or (family and family.id == "deepseek-v4"):
        return _compressed(fields, layers)
    linear = _linear_layers(fields, layers)
    if fields.integer("kv_lora_rank"):
        softmax: tuple[Attention, ...] = (_mla(fields, layers - linear),)
    else:
        softmax = _gqa(fields, layers, layers - linear, family)
    return (_linear(fields, linear), *softmax) if linear else softmax


def _mla(fields: Fields, layers: int) -> MlaAttention:
    return MlaAttention(
        layers=layers,
        heads=fields.required("num_attention_heads"),
        kv_lora_rank=fields.required("kv_lora_rank"),
        rope_head_dim=fields.required("qk_rope_head_dim"),
        nope_head_dim=fields.integer("qk_nope_head_dim"),
        value_head_dim=fields.integer("v_head_dim"),
        q_lora_rank=fields.integer("q_lora_rank"),
        indexer_head_dim=fields.integer("index_head_dim"),
        indexer_top_k=fields.integer("index_topk"),
    )


def _gqa(fields: Fields, layers: int, softmax_layers: int, family: Family | None) -> tuple[Attention, ...]:
    heads = fields.required("num_attention_heads")
    if not heads:
        raise ReadError(f"{fields.file} is broken: no attention heads")
    width = fields.integer("head_dim") or fields.required("hidden_size") // heads
    full = GqaAttention(
        layers=softmax_layers,
        heads=heads,
        kv_heads=fields.integer("num_key_value_heads") or heads,
        key_head_dim=width,
        value_head_dim=width,
    )
    window = fields.integer("sliding_window")
    windowed = _windowed_layers(fields, layers, family) if window else 0
    if not windowed:
        return (full,)
    sliding = full.model_copy(update={"layers": windowed, "window_tokens": window})
    rest = softmax_layers - windowed
    return (full.model_copy(update={"layers": rest}), sliding) if rest > 0 else (sliding,)


def _windowed_layers(fields: Fields, layers: int, family: Family | None) -> int:
    if kinds := fields.kinds("layer_types", layers):
        return kinds.count("sliding_attention")
    if fields.values.get("use_sliding_window") is False:
        return 0
    period = family.sliding_window_period if family else None
    return layers - layers // period if period else layers


def _linear_layers(fields: Fields, layers: int) -> int:
    if kinds := fields.kinds("layer_types", layers):
        return kinds.count("linear_attention")
    if not fields.integer("linear_num_value_heads"):
        return 0
    interval = fields.integer("full_attention_interval") or 4
    return layers - layers // interval


def _linear(fields: Fields, layers: int) -> LinearAttention:
    values, keys = fields.integer("linear_num_value_heads"), fields.integer("linear_num_key_heads")
    key_dim, value_dim = fields.integer("linear_key_head_dim"), fields.integer("linear_value_head_dim")
    kernel = fields.integer("linear_conv_kernel_dim")
    if not (values and keys and key_dim and value_dim and kernel):
        return LinearAttention(layers=layers)
    state = values * key_dim * value_dim
    conv = (kernel - 1) * (2 * keys * key_dim + values * value_dim)
    return LinearAttention(layers=layers, state_bytes=4 * (state + conv), state_elements=state, conv_elements=conv)


def _compressed(fields: Fields, layers: int) -> tuple[Attention, ...]:
    """DeepSeek V4: layers differ in how many tokens become one entry; only ratio 4 has an indexer."""
    ratios = fields.kinds("compress_ratios", layers)
    if ratios is None or any(type(ratio) is not int or not 0 <= ratio <= _MOST_LAYERS for ratio in ratios):
        raise ReadError(f"{fields.file} has no usable compress_ratios")
    ratios = [0 if ratio == 1 else ratio for ratio in ratios]
    return tuple(
        CompressedAttention(
            layers=count,
            heads=fields.required("num_attention_heads"),
            head_dim=fields.required("head_dim"),
            rope_head_dim=fields.integer("qk_rope_head_dim"),
            window_tokens=fields.required("sliding_window"),
            ratio=ratio,
            indexer_head_dim=fields.integer("index_head_dim") if ratio == 4 else None,
            indexer_top_k=fields.integer("index_topk") if ratio == 4 else None,
        )
        for ratio, count in sorted(Counter(ratios).items())
    )
