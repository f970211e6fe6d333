"""What is stored decides the format: names, types and shapes as the quantisers of the field write them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.sparse_models import write_safetensors
from upright.facts.records.model import GqaAttention, LinearAttention, MlaAttention
from upright.models.reading import read
from upright.models.reading.gguf import ggml_types

CONFIG: dict[str, Any] = {
    "architectures": ["Qwen3MoeForCausalLM"],
    "num_hidden_layers": 1,
    "hidden_size": 256,
    "vocab_size": 16,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_experts": 2,
    "num_experts_per_tok": 1,
}
UP = "model.layers.0.mlp.experts.0.up_proj"
ROWS, COLUMNS = 128, 256
PARAMETERS = ROWS * COLUMNS

FORMATS: dict[str, tuple[dict[str, Any], list[tuple[str, str, tuple[int, ...]]], str, float]] = {
    "compressed-tensors INT4, groups of 32 (Kimi K2.6)": (
        {"quant_method": "compressed-tensors", "config_groups": {"g": {"weights": {"num_bits": 4}}}},
        [
            (f"{UP}.weight_packed", "I32", (ROWS, COLUMNS // 8)),
            (f"{UP}.weight_scale", "BF16", (ROWS, COLUMNS // 32)),
            (f"{UP}.weight_shape", "I32", (2,)),
        ],
        "INT4_G32",
        4.5,
    ),
    "compressed-tensors INT8, one scale a row": (
        {"quant_method": "compressed-tensors", "config_groups": {"g": {"weights": {"num_bits": 8}}}},
        [(f"{UP}.weight_packed", "I32", (ROWS, COLUMNS // 4)), (f"{UP}.weight_scale", "BF16", (ROWS, 1))],
        "INT8_G256",
        8.06,
    ),
    "ModelOpt NVFP4": (
        {"quant_method": "modelopt", "quant_algo": "NVFP4"},
        [
            (f"{UP}.weight", "U8", (ROWS, COLUMNS // 2)),
            (f"{UP}.weight_scale", "F8_E4M3", (ROWS, COLUMNS // 16)),
            (f"{UP}.weight_scale_2", "F32", ()),
            (f"{UP}.input_scale", "F32", ()),
        ],
        "NVFP4",
        4.5,
    ),
    "compressed-tensors NVFP4": (
        {"quant_method": "compressed-tensors", "format": "nvfp4-pack-quantized"},
        [
            (f"{UP}.weight_packed", "U8", (ROWS, COLUMNS // 2)),
            (f"{UP}.weight_scale", "F8_E4M3", (ROWS, COLUMNS // 16)),
            (f"{UP}.weight_global_scale", "F32", (1,)),
        ],
        "NVFP4",
        4.5,
    ),
    "MXFP4 with power-of-two scales (Quark)": (
        {"quant_method": "quark"},
        [(f"{UP}.weight", "U8", (ROWS, COLUMNS // 2)), (f"{UP}.weight_scale", "U8", (ROWS, COLUMNS // 32))],
        "MXFP4",
        4.25,
    ),
    "MXFP4 blocks (gpt-oss)": (
        {"quant_method": "mxfp4"},
        [
            ("model.layers.0.mlp.experts.gate_up_proj_blocks", "U8", (1, ROWS, COLUMNS // 32, 16)),
            ("model.layers.0.mlp.experts.gate_up_proj_scales", "U8", (1, ROWS, COLUMNS // 32)),
        ],
        "MXFP4",
        4.25,
    ),
    "FP8 in blocks of 128 (DeepSeek V3)": (
        {"quant_method": "fp8", "weight_block_size": [128, 128]},
        [(f"{UP}.weight", "F8_E4M3", (ROWS, COLUMNS)), (f"{UP}.weight_scale_inv", "F32", (1, 2))],
        "FP8_B128",
        8.0,
    ),
    "FP8 with one scale": (
        {"quant_method": "compressed-tensors"},
        [(f"{UP}.weight", "F8_E4M3", (ROWS, COLUMNS)), (f"{UP}.weight_scale", "BF16", (ROWS, 1))],
        "FP8",
        8.06,
    ),
    "FP4 experts with `scale` (DeepSeek V4)": (
        {"quant_method": "fp8"},
        [(f"{UP}.weight", "I8", (ROWS, COLUMNS // 2)), (f"{UP}.scale", "F8_E8M0", (ROWS, COLUMNS // 32))],
        "MXFP4",
        4.25,
    ),
    "AWQ": (
        {"quant_method": "awq", "bits": 4, "group_size": 128},
        [
            (f"{UP}.qweight", "I32", (COLUMNS, ROWS // 8)),
            (f"{UP}.qzeros", "I32", (COLUMNS // 128, ROWS // 8)),
            (f"{UP}.scales", "F16", (COLUMNS // 128, ROWS)),
        ],
        "AWQ_INT4_G128",
        4.16,
    ),
    "GPTQ": (
        {"quant_method": "gptq", "bits": 4, "group_size": 128},
        [
            (f"{UP}.qweight", "I32", (COLUMNS // 8, ROWS)),
            (f"{UP}.qzeros", "I32", (COLUMNS // 128, ROWS // 8)),
            (f"{UP}.scales", "F16", (COLUMNS // 128, ROWS)),
            (f"{UP}.g_idx", "I32", (COLUMNS,)),
        ],
        "GPTQ_INT4_G128",
        4.41,
    ),
    "plain bfloat16": ({}, [(f"{UP}.weight", "BF16", (ROWS, COLUMNS))], "BF16", 16.0),
}


@pytest.mark.parametrize("case", FORMATS)
def test_a_stored_format(case: str, tmp_path: Path) -> None:
    declaration, tensors, label, bits = FORMATS[case]
    write_safetensors(tmp_path / "model.safetensors", tensors)
    config = CONFIG | ({"quantization_config": declaration} if declaration else {})
    (tmp_path / "config.json").write_text(json.dumps(config))
    model = read(str(tmp_path))
    (line,) = model.weights
    assert (line.group, line.layer, line.dtype, line.tensors) == ("routed_experts", 0, label, len(tensors))
    assert line.parameters == PARAMETERS
    assert 8 * line.bytes / line.parameters == pytest.approx(bits, abs=0.01)
    assert model.quantisation == declaration.get("quant_method")


STACKED = "model.layers.0.mlp.switch_mlp.up_proj"
WORDS: dict[str, tuple[dict[str, Any], int, int, str, str, float]] = {
    "affine, 4 bits in groups of 64": ({"group_size": 64, "bits": 4}, 4, 64, "F16", "AFFINE_INT4_G64", 4.5),
    "affine, 3 bits in groups of 32": ({"group_size": 32, "bits": 3}, 3, 32, "BF16", "AFFINE_INT3_G32", 4.0),
    "8 bits here, by its path": (
        {"group_size": 64, "bits": 4, STACKED: {"group_size": 64, "bits": 8}}, 8, 64, "BF16", "AFFINE_INT8_G64", 8.5,
    ),
    "another group here, with words as many": (
        {"group_size": 64, "bits": 4, STACKED: {"group_size": 32, "bits": 8}}, 8, 32, "BF16", "AFFINE_INT8_G32", 9.0,
    ),
    "6 bits here, and no path says so": ({"group_size": 64, "bits": 4}, 6, 64, "BF16", "AFFINE_INT6_G64", 6.5),
    "mxfp4": ({"group_size": 32, "bits": 4, "mode": "mxfp4"}, 4, 32, "U8", "MXFP4", 4.25),
    "nvfp4": ({"group_size": 16, "bits": 4, "mode": "nvfp4"}, 4, 16, "U8", "NVFP4", 4.5),
    "mxfp8": ({"group_size": 32, "bits": 8, "mode": "mxfp8"}, 8, 32, "U8", "MXFP8", 8.25),
    "mxfp8 here, the rest affine": ({"group_size": 64, "bits": 4}, 8, 32, "U8", "MXFP8", 8.25),
}  # fmt: skip


@pytest.mark.parametrize("case", WORDS)
def test_words_that_mlx_packs(case: str, tmp_path: Path) -> None:
    declaration, bits, group, scale, label, stored_bits = WORDS[case]
    experts = 2
    tensors = [
        (f"{STACKED}.weight", "U32", (experts, ROWS, COLUMNS * bits // 32)),
        (f"{STACKED}.scales", scale, (experts, ROWS, COLUMNS // group)),
    ]
    if scale != "U8":
        tensors.append((f"{STACKED}.biases", scale, (experts, ROWS, COLUMNS // group)))
    write_safetensors(tmp_path / "model.safetensors", tensors)
    config = CONFIG | {"quantization": declaration, "quantization_config": declaration}
    (tmp_path / "config.json").write_text(json.dumps(config))
    model = read(str(tmp_path))
    (line,) = model.weights
    assert (line.group, line.layer, line.dtype, line.tensors) == ("routed_experts", 0, label, len(tensors))
    assert line.parameters == experts * PARAMETERS
    assert 8 * line.bytes / line.parameters == stored_bits
    assert (model.quantisation, model.not_understood, model.unknown) == ("mlx", (), ())


@pytest.mark.parametrize(
    "declaration",
    [{"group_size": 64, "bits": 4, "mode": "spherical"}, {"group_size": 64, "bits": 7}, {"bits": 4}, {"levels": [1]}],
)
def test_words_of_a_packing_that_is_not_known(declaration: dict[str, Any], tmp_path: Path) -> None:
    tensors = [(f"{STACKED}.weight", "U32", (2, ROWS, 32)), (f"{STACKED}.scales", "F16", (2, ROWS, 4))]
    write_safetensors(tmp_path / "model.safetensors", tensors)
    (tmp_path / "config.json").write_text(json.dumps(CONFIG | {"quantization": declaration}))
    model = read(str(tmp_path))
    assert (model.quantisation, model.not_understood) == (None, ("quantization",))


def test_words_that_do_not_fit_what_is_declared(tmp_path: Path) -> None:
    tensors = [(f"{STACKED}.weight", "U32", (2, ROWS, 27)), (f"{STACKED}.scales", "F16", (2, ROWS, 3))]
    write_safetensors(tmp_path / "model.safetensors", tensors)
    (tmp_path / "config.json").write_text(json.dumps(CONFIG | {"quantization": {"group_size": 64, "bits": 4}}))
    model = read(str(tmp_path))
    assert (model.quantisation, model.not_understood) == ("mlx", ("quantization",))


def test_unknown_names_are_reported_with_their_bytes(tmp_path: Path) -> None:
    tensors = [(f"strange.{n}.thing", "BF16", (100,)) for n in range(3)]
    write_safetensors(tmp_path / "model.safetensors", tensors)
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    (unknown,) = read(str(tmp_path)).unknown
    assert (unknown.pattern, unknown.tensors, unknown.bytes) == ("strange.*.thing", 3, 600)


@pytest.mark.parametrize(
    ("name", "shape", "size"),
    [
        ("Q4_0", (64, 2), 72),
        ("IQ4_KS", (512, 3), 3 * (2 * 136 + 4)),
        ("IQ2_KL", (256, 10), 10 * (86 + 2)),
        ("Q8_KV", (64, 5), 5 * (2 * 32 + 8)),
        ("NVFP4", (128, 1), 72),
        ("IQ3_K", (7168, 2048, 384), 7168 * 2048 * 384 // 256 * 110),
    ],
)
def test_ggml_sizes_have_the_bytes_beside_the_blocks(name: str, shape: tuple[int, ...], size: int) -> None:
    (kind,) = [kind for kind in ggml_types().values() if kind.name == name]
    assert kind.size_bytes(shape) == size


def test_the_gguf_library_agrees_on_every_size_it_has() -> None:
    from gguf import GGML_QUANT_SIZES, GGMLQuantizationType

    never_stored = {"Q8_1", "Q8_K"}
    ours = ggml_types()
    for kind in GGMLQuantizationType:
        if kind.name not in never_stored:
            found = ours[int(kind)]
            assert (found.name, found.block_elements, found.block_bytes) == (kind.name, *GGML_QUANT_SIZES[kind])
            assert (found.row_bytes, found.ik_only) == (0, False)


def test_a_hybrid_with_linear_layers(tmp_path: Path) -> None:
    text = {
        "num_hidden_layers": 60, "hidden_size": 4096, "vocab_size": 248320, "num_attention_heads": 32,
        "num_key_value_heads": 2, "head_dim": 256, "linear_num_value_heads": 64, "linear_num_key_heads": 16,
        "linear_key_head_dim": 128, "linear_value_head_dim": 128, "linear_conv_kernel_dim": 4,
        "layer_types": (["linear_attention"] * 3 + ["full_attention"]) * 15, "num_experts": 512,
        "num_experts_per_tok": 10, "moe_intermediate_size": 1024, "shared_expert_intermediate_size": 1024,
        "max_position_embeddings": 262144,
    }  # fmt: skip
    config = {"architectures": ["Qwen3_5MoeForConditionalGeneration"], "text_config": text, "vision_config": {}}
    built = read_config(tmp_path, config).architecture
    linear, full = built.attention
    assert isinstance(linear, LinearAttention)
    assert isinstance(full, GqaAttention)
    assert (linear.layers, linear.state_elements, linear.conv_elements) == (45, 64 * 128 * 128, 3 * (4096 + 8192))
    assert (full.layers, full.kv_heads, full.key_head_dim) == (15, 2, 256)
    assert built.experts is not None
    assert built.experts.shared == 1
    assert not built.vision, "the configuration promises a tower that the files do not have"


def test_sliding_windows(tmp_path: Path) -> None:
    config = CONFIG | {
        "architectures": ["GptOssForCausalLM"], "num_hidden_layers": 36, "num_key_value_heads": 8, "head_dim": 64,
        "sliding_window": 128, "num_local_experts": 128,
    }  # fmt: skip
    explicit = config | {"layer_types": ["sliding_attention", "full_attention"] * 18}
    for variant in (config, explicit):
        kinds = read_config(tmp_path, variant).architecture.attention
        assert [(kind.layers, kind.window_tokens) for kind in kinds] == [(18, None), (18, 128)]


def test_sparse_mla(tmp_path: Path) -> None:
    config = CONFIG | {
        "architectures": ["GlmMoeDsaForCausalLM"], "num_hidden_layers": 78, "kv_lora_rank": 512,
        "qk_rope_head_dim": 64, "qk_nope_head_dim": 192, "v_head_dim": 256, "q_lora_rank": 2048,
        "index_head_dim": 128, "index_topk": 2048, "first_k_dense_replace": 3, "n_routed_experts": 256,
        "n_shared_experts": 1, "num_nextn_predict_layers": 1, "max_position_embeddings": 202752,
    }  # fmt: skip
    built = read_config(tmp_path, config).architecture
    (mla,) = built.attention
    assert isinstance(mla, MlaAttention)
    assert (mla.layers, mla.indexer_head_dim, mla.indexer_top_k) == (78, 128, 2048)
    assert (built.family, built.context_limit_tokens, built.draft_layers) == ("glm-dsa", 202752, 0)


def test_compressed_attention(tmp_path: Path) -> None:
    """DeepSeek V4 Flash: two layers with a window only, then 4 and 128 in turn; the last ratio is the draft layer's."""
    ratios = [0, 0, *([4, 128] * 20), 4, 0]
    config = CONFIG | {
        "architectures": ["DeepseekV4ForCausalLM"], "num_hidden_layers": 43, "head_dim": 512, "qk_rope_head_dim": 64,
        "compress_ratios": ratios, "sliding_window": 128, "index_head_dim": 128, "index_topk": 512,
    }  # fmt: skip
    kinds = read_config(tmp_path, config).architecture.attention
    assert [(kind.ratio, kind.layers, kind.indexer_top_k) for kind in kinds] == [
        (0, 2, None),
        (4, 21, 512),
        (128, 20, None),
    ]


def read_config(folder: Path, config: dict[str, Any]) -> Any:
    write_safetensors(folder / "model.safetensors", [("model.norm.weight", "BF16", (8,))])
    (folder / "config.json").write_text(json.dumps(config))
    return read(str(folder))
