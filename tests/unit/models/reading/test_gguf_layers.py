"""Keys of a GGUF header, layer by layer: what each keeps of the past, and which keys nobody knows.

Rules as in llama.cpp b21e4de7: src/llama-hparams.cpp, src/models/*.cpp.
"""

from __future__ import annotations

from typing import Any

from upright.facts.records.model import Architecture, LinearAttention
from upright.models.reading.gguf_keys import architecture
from upright.planning.memory.kvcache import cache_shape
from upright.planning.memory.layouts import Storage


def header(name: str, **keys: Any) -> dict[str, Any]:
    plain = {
        "block_count": 4,
        "embedding_length": 1024,
        "context_length": 4096,
        "vocab_size": 1000,
        "attention.head_count": 8,
        "attention.head_count_kv": 2,
        "attention.key_length": 128,
        "attention.value_length": 128,
        "attention.layer_norm_rms_epsilon": 1e-6,
    }
    spelled = {key.replace("__", "."): entry for key, entry in keys.items()}
    return {"general.architecture": name, **{f"{name}.{key}": entry for key, entry in {**plain, **spelled}.items()}}


def read(name: str, **keys: Any) -> Architecture:
    built, told = architecture(header(name, **keys), "m.gguf")
    assert told == ()
    return built


def grows(built: Architecture) -> float:
    return float(cache_shape(built, "f16", storage=Storage("llama.cpp")).bytes_per_token)


def test_heads_are_counted_by_layer() -> None:
    """MiMo-V2 has heads of its own in windows, Nemotron none where there is no attention."""
    mimo = read(
        "mimo2",
        attention__head_count_kv=(2, 4, 4, 2),
        attention__sliding_window=128,
        attention__sliding_window_pattern=(0, 1, 1, 0),
    )
    assert grows(mimo) == 2 * 2 * 256 * 2
    assert grows(read("deci", attention__head_count_kv=(2, 0, 2, 0))) == 2 * 2 * 256 * 2


def test_windows_have_widths_of_their_own_and_last_layers_share() -> None:
    gemma = read(
        "gemma4",
        attention__key_length=512,
        attention__value_length=512,
        attention__key_length_swa=256,
        attention__value_length_swa=256,
        attention__sliding_window=512,
        attention__sliding_window_pattern=(1, 0, 1, 0),
        attention__shared_kv_layers=2,
    )
    assert [kind.kind for kind in gemma.attention] == ["gqa", "gqa", "shared"]
    assert grows(gemma) == 2 * 1024 * 2


def test_recurrent_layers_keep_states() -> None:
    kda = read("kimi-linear", attention__head_count_kv=(0, 2, 0, 2), kda__head_dim=64, ssm__conv_kernel=4)
    state = kda.attention[0]
    assert isinstance(state, LinearAttention)
    assert (state.state_elements, state.conv_elements) == (8 * 64 * 64, 3 * 3 * 8 * 64)
    short = read("lfm2", attention__head_count_kv=(0, 2, 0, 0), shortconv__l_cache=3)
    state = short.attention[0]
    assert isinstance(state, LinearAttention)
    assert (state.layers, state.state_bytes) == (3, 4 * 2 * 1024)


def test_compressed_layers_and_shared_indexers() -> None:
    v4 = read(
        "deepseek4",
        attention__key_length=512,
        attention__sliding_window=128,
        attention__compress_ratios=(0, 4, 128, 4),
        attention__indexer__key_length=128,
        rope__dimension_count=64,
    )
    assert sorted((kind.ratio, kind.layers) for kind in v4.attention if kind.kind == "compressed") == [
        (0, 1),
        (4, 2),
        (128, 1),
    ]
    shared = read(
        "glm-dsa",
        attention__kv_lora_rank=512,
        attention__indexer__key_length=128,
        attention__indexer__types=(1, 0, 0, 1),
        rope__dimension_count=64,
    )
    assert [(kind.layers, getattr(kind, "indexer_head_dim", None)) for kind in shared.attention] in (
        [(2, 128), (2, None)],
        [(2, None), (2, 128)],
    )


def test_a_key_of_the_cache_that_nobody_knows_is_told_with_bounds() -> None:
    built, told = architecture(header("llama", attention__kv_stride=4), "m.gguf")
    assert told == ("llama.attention.kv_stride",)
    assert built.attention_at_least == ()
    assert built.attention_at_most == built.attention
    _, loops = architecture(header("nanbeige", num_loops=2), "m.gguf")
    assert loops == ("nanbeige.num_loops",)


def test_keys_of_other_kinds_of_layers_are_no_strangers() -> None:
    """Kimi K2 states one KV head beside its latent vectors."""
    kimi = read("deepseek2", attention__kv_lora_rank=512, attention__head_count_kv=1, rope__dimension_count=64)
    assert grows(kimi) == 4 * 576 * 2
