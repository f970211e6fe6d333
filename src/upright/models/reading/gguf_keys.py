"""GGUF keys -> Architecture."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

from upright.base.errors import ReadError
from upright.facts.records.model import (
    Architecture,
    Attention,
    CompressedAttention,
    Experts,
    GqaAttention,
    LinearAttention,
    MlaAttention,
    RopeScaling,
    SharedAttention,
)
from upright.models.reading.gguf import OmittedArray
from upright.models.reading.tensor_names import Family, family_of

_LARGEST = 2**40
_MOST_LAYERS = 10_000
# Keys that say what a layer keeps of the past, and those that move no bytes (llama.cpp b21e4de7 src/llama-arch.cpp).
_OF_THE_CACHE = re.compile(
    r"^(attention|ssm|kda|wkv|shortconv|num_loops|token_shift_count|kv|cache)\b|cache|kv_|recurr|window"
)
# Keys that another kind of layer needs: no strangers where this kind does not ask for them.
_OF_OTHER_KINDS = frozenset(
    f"attention.{name}"
    for name in ("head_count", "head_count_kv", "key_length", "value_length", "key_length_mla", "value_length_mla")
) | {"attention.sliding_window", "attention.sliding_window_pattern", "attention.indexer.key_length", "ssm.group_count"}
_MOST_TOLD = 40
_INDEXED_RATIO = 4
_INERT = re.compile(
    r"epsilon|causal|clamp|alibi|scale|temperature|group_norm|buckets|rope|output_|q_lora_rank|gate_|decay_|iclr_|"
    r"value_residual|time_step_rank|dt_b_c|safe_gate|indexer\.(head_count|block_size|local_blocks|top_k)|sinks|softcap"
)


def architecture(metadata: Mapping[str, Any], file: str) -> tuple[Architecture, tuple[str, ...]]:
    """What the header says, and the keys of the cache that nobody here knows."""
    keys = GgufKeys(metadata, file)
    built = _architecture(keys, file)
    told = tuple(keys.left_over())[:_MOST_TOLD]
    if told:
        built = built.model_copy(update={"attention_at_least": (), "attention_at_most": _most(built)})
    return built, told


def _most(built: Architecture) -> tuple[Attention, ...] | None:
    """Every layer keeping every token with the widest heads that were read; None where nothing bounds it."""
    plain = [kind for kind in built.attention if isinstance(kind, GqaAttention)]
    latent = [kind for kind in built.attention if isinstance(kind, MlaAttention)]
    if latent and not plain:
        return (max(latent, key=lambda kind: kind.indexer_head_dim or 0).model_copy(update={"layers": built.layers}),)
    if not plain or latent:
        return None
    width = max(max(kind.key_head_dim, kind.value_head_dim) for kind in plain)
    heads = {"heads": max(kind.heads for kind in plain), "kv_heads": max(kind.kv_heads for kind in plain)}
    return (GqaAttention(layers=built.layers, key_head_dim=width, value_head_dim=width, **heads),)


def _architecture(keys: GgufKeys, file: str) -> Architecture:
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


class GgufKeys:
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
        self.asked: set[str] = set()

    def left_over(self) -> list[str]:
        """Keys that may decide the cache and that were not asked for, as the file spells them."""
        beginning = f"{self.name}."
        keys = [key for key in self.metadata if key.startswith(beginning)]
        return [
            key
            for key in keys
            if (bare := key.removeprefix(beginning)) not in self.asked | _OF_OTHER_KINDS
            and _OF_THE_CACHE.search(bare)
            and not _INERT.search(bare)
            and self.metadata[key] not in (None, 0, False, "")
        ]

    def by_layer(self, key: str, layers: int) -> tuple[int, ...] | None:
        """A number for each layer; one number is every layer's."""
        entry = self.get(key)
        if type(entry) is int:
            entry = (entry,) * layers
        if not isinstance(entry, tuple) or len(entry) < layers:
            return None
        if any(not isinstance(number, int) or not 0 <= number <= _LARGEST for number in entry):
            raise ReadError(f"{self.file} is broken: {self.name}.{key}")
        return tuple(int(number) for number in entry[:layers])

    def get(self, key: str) -> Any:
        self.asked.add(key)
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


def _vocabulary(keys: GgufKeys) -> int:
    tokens = keys.metadata.get("tokenizer.ggml.tokens")
    if isinstance(tokens, OmittedArray):
        return tokens.count
    if isinstance(tokens, tuple):
        return len(tokens)
    return keys.required("vocab_size")


def _experts(keys: GgufKeys) -> Experts | None:
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


def _rope_scaling(keys: GgufKeys) -> RopeScaling | None:
    kind = keys.get("rope.scaling.type")
    if not isinstance(kind, str) or kind == "none":
        return None
    return RopeScaling(
        kind=kind,
        factor=keys.number("rope.scaling.factor"),
        original_context_tokens=keys.integer("rope.scaling.original_context_length"),
    )


def _attention(keys: GgufKeys, layers: int, family: Family | None) -> tuple[Attention, ...]:
    """Layers that are alike, counted: recurrent ones, then those that keep every token, then windows."""
    recurrent, windows = _recurrent(keys, layers), _windows(keys, layers, family)
    shared = keys.integer("attention.shared_kv_layers") or 0
    kinds: Counter[Attention] = Counter()
    for layer in range(layers):
        if recurrent[layer]:
            kinds.update((_linear(keys),))
        elif layer >= layers - shared:
            kinds.update((SharedAttention(layers=1, heads=keys.required("attention.head_count")),))
        else:
            kinds.update(_softmax(keys, layer, layers, windows[layer]))
    ordered = sorted(kinds, key=lambda kind: (kind.kind == "shared", kind.kind != "linear", _bound(kind)))
    return tuple(kind.model_copy(update={"layers": kinds[kind]}) for kind in ordered)


def _bound(kind: Attention) -> int:
    return 0 if kind.kind in ("linear", "shared") else getattr(kind, "window_tokens", None) or 0


def _recurrent(keys: GgufKeys, layers: int) -> tuple[bool, ...]:
    """Which layers are recurrent: as a list says, all but every n-th, or those without KV heads."""
    states = ("ssm.state_size", "kda.head_dim", "shortconv.l_cache")
    if all(keys.integer(name) is None for name in states):
        return (False,) * layers
    listed = keys.by_layer("attention.recurrent_layers", layers)
    interval = keys.integer("full_attention_interval")
    heads = keys.by_layer("attention.head_count_kv", layers)
    if listed is not None:
        return tuple(bool(entry) for entry in listed)
    if interval:
        return tuple((layer + 1) % interval != 0 for layer in range(layers))
    return tuple(heads is not None and heads[layer] == 0 for layer in range(layers))


def _linear(keys: GgufKeys) -> LinearAttention:
    """llama.cpp b21e4de7 llama-hparams.cpp n_embd_s and n_embd_r: both are kept in float32."""
    state, inner = keys.integer("ssm.state_size"), keys.integer("ssm.inner_size")
    kernel, groups = keys.integer("ssm.conv_kernel"), keys.integer("ssm.group_count")
    if length := keys.integer("shortconv.l_cache"):
        return _state(0, (length - 1) * keys.required("embedding_length"))
    if width := keys.integer("kda.head_dim"):
        heads = keys.required("attention.head_count")
        return _state(heads * width * width, 3 * ((kernel or 4) - 1) * heads * width)
    if not state or not inner or not kernel or groups is None:
        return LinearAttention(layers=1)
    return _state(state * inner, (kernel - 1) * (inner + 2 * groups * state))


def _state(elements: int, conv: int) -> LinearAttention:
    return LinearAttention(layers=1, state_bytes=4 * (elements + conv), state_elements=elements, conv_elements=conv)


def _softmax(keys: GgufKeys, layer: int, layers: int, window: int | None) -> tuple[Attention, ...]:
    if (ratios := keys.by_layer("attention.compress_ratios", layers)) is not None:
        return (_compressed(keys, ratios[layer]),)
    if keys.integer("attention.kv_lora_rank"):
        return (_mla(keys, layer, layers),)
    return _gqa(keys, layer, layers, window)


def _compressed(keys: GgufKeys, ratio: int) -> CompressedAttention:
    indexed = ratio == _INDEXED_RATIO
    return CompressedAttention(
        layers=1,
        heads=keys.required("attention.head_count"),
        head_dim=keys.required("attention.key_length"),
        rope_head_dim=keys.integer("rope.dimension_count"),
        window_tokens=keys.required("attention.sliding_window"),
        ratio=0 if ratio == 1 else ratio,
        indexer_head_dim=keys.integer("attention.indexer.key_length") if indexed else None,
        indexer_top_k=keys.integer("attention.indexer.top_k") if indexed else None,
    )


def _mla(keys: GgufKeys, layer: int, layers: int) -> MlaAttention:
    rope = keys.required("rope.dimension_count")
    # Guard: files from before llama.cpp's MLA (April 2025) have the unabsorbed widths in key_length, without _mla keys.
    head = keys.integer("attention.key_length_mla") or keys.required("attention.key_length")
    owners = keys.by_layer("attention.indexer.types", layers)
    return MlaAttention(
        layers=1,
        heads=keys.required("attention.head_count"),
        kv_lora_rank=keys.required("attention.kv_lora_rank"),
        rope_head_dim=rope,
        nope_head_dim=head - rope if head > rope else None,
        value_head_dim=keys.integer("attention.value_length_mla") or keys.integer("attention.value_length"),
        q_lora_rank=keys.integer("attention.q_lora_rank") or None,
        indexer_head_dim=keys.integer("attention.indexer.key_length") if owners is None or owners[layer] else None,
        indexer_top_k=keys.integer("attention.indexer.top_k"),
    )


def _gqa(keys: GgufKeys, layer: int, layers: int, window: int | None) -> tuple[Attention, ...]:
    heads = keys.required("attention.head_count")
    if not heads:
        raise ReadError(f"{keys.file} is broken: no attention heads")
    stated = keys.by_layer("attention.head_count_kv", layers)
    kv_heads = stated[layer] if stated is not None else keys.integer("attention.head_count_kv") or heads
    if not kv_heads and stated is not None and any(stated):
        return ()  # a layer without attention
    key = keys.integer("attention.key_length") or keys.required("embedding_length") // heads
    value_length = keys.integer("attention.value_length") or key
    own_key, own_value = keys.integer("attention.key_length_swa"), keys.integer("attention.value_length_swa")
    return (
        GqaAttention(
            layers=1,
            heads=heads,
            kv_heads=kv_heads or heads,
            key_head_dim=own_key if own_key and window else key,
            value_head_dim=own_value if own_value and window else value_length,
            window_tokens=window,
        ),
    )


def _windows(keys: GgufKeys, layers: int, family: Family | None) -> tuple[int | None, ...]:
    """The window of each layer; every n-th keeps every token, as llama.cpp's set_swa_pattern counts."""
    window = keys.integer("attention.sliding_window") or None
    pattern = keys.get("attention.sliding_window_pattern")
    if window is None:
        return (None,) * layers
    if isinstance(pattern, tuple):
        sliding = [bool(entry) for entry in pattern[:layers]]
        return tuple(window if slides else None for slides in (*sliding, *[False] * (layers - len(sliding))))
    period = pattern if type(pattern) is int and pattern > 0 else family.sliding_window_period if family else None
    return tuple(window if not period or (layer + 1) % period else None for layer in range(layers))
