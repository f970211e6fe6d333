"""Full-size models as sparse files: real headers, and holes where the weights would be.

A 543 GiB Kimi K2 takes a few megabytes of disk. Never start a server on one: mmap would fault the holes in.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Iterable, Mapping
from math import prod
from pathlib import Path
from typing import Any

from upright.models.reading.gguf import ggml_types
from upright.models.reading.safetensors import DTYPE_BITS

ALIGNMENT = 32
_BY_NAME = {kind.name: (number, kind) for number, kind in ggml_types().items()}
Tensors = Iterable[tuple[str, str, tuple[int, ...]]]


def write_gguf(path: Path, metadata: Mapping[str, Any], tensors: Tensors, *, version: int = 3) -> None:
    """Shapes innermost first, as ggml has them."""
    _write_sparse(path, *gguf_header(metadata, tensors, version=version))


def write_safetensors(path: Path, tensors: Tensors, metadata: Mapping[str, str] | None = None) -> None:
    """Shapes outermost first."""
    _write_sparse(path, *safetensors_header(tensors, metadata))


def gguf_header(metadata: Mapping[str, Any], tensors: Tensors, *, version: int = 3) -> tuple[bytes, int]:
    """The header, and the size of the whole file."""
    listed = list(tensors)
    head = bytearray(b"GGUF" + struct.pack("<IQQ", version, len(listed), len(metadata)))
    for key, value in metadata.items():
        head += _string(key) + _value(value)
    offset = 0
    for name, dtype, shape in listed:
        number, kind = _BY_NAME[dtype]
        size_bytes = kind.size_bytes(shape)
        assert size_bytes is not None
        head += _string(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, number, offset)
        offset += -(-size_bytes // ALIGNMENT) * ALIGNMENT
    return bytes(head), -(-len(head) // ALIGNMENT) * ALIGNMENT + offset


def safetensors_header(tensors: Tensors, metadata: Mapping[str, str] | None = None) -> tuple[bytes, int]:
    """The header with its length before it, and the size of the whole file."""
    header: dict[str, Any] = {"__metadata__": dict(metadata)} if metadata else {}
    offset = 0
    for name, dtype, shape in tensors:
        end = offset + prod(shape) * DTYPE_BITS[dtype] // 8
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text, 8 + len(text) + offset


def _write_sparse(path: Path, head: bytes, size_bytes: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(head)
    os.truncate(path, size_bytes)


def _string(text: str) -> bytes:
    raw = text.encode()
    return struct.pack("<Q", len(raw)) + raw


def _value(value: Any) -> bytes:
    if isinstance(value, bool):
        return struct.pack("<I?", 7, value)
    if isinstance(value, int):
        return struct.pack("<II", 4, value)
    if isinstance(value, float):
        return struct.pack("<If", 6, value)
    if isinstance(value, str):
        return struct.pack("<I", 8) + _string(value)
    if value and isinstance(value[0], str):
        return struct.pack("<IIQ", 9, 8, len(value)) + b"".join(_string(item) for item in value)
    return struct.pack(f"<IIQ{len(value)}i", 9, 5, len(value), *value)


# Kimi K2: https://huggingface.co/moonshotai/Kimi-K2.6 config.json (text_config)
LAYERS, HIDDEN, VOCABULARY, HEADS, EXPERTS = 61, 7168, 163_840, 64, 384
Q_LORA, KV_LORA, NOPE, ROPE, V_HEAD, DENSE, EXPERT = 1536, 512, 128, 64, 128, 18_432, 2048

K2_KEYS: dict[str, Any] = {
    "general.architecture": "deepseek2",
    "general.name": "sparse-kimi-k2",
    "deepseek2.block_count": LAYERS,
    "deepseek2.context_length": 262_144,
    "deepseek2.embedding_length": HIDDEN,
    "deepseek2.feed_forward_length": DENSE,
    "deepseek2.attention.head_count": HEADS,
    "deepseek2.attention.head_count_kv": 1,
    "deepseek2.attention.layer_norm_rms_epsilon": 1e-6,
    "deepseek2.rope.freq_base": 50_000.0,
    "deepseek2.rope.dimension_count": ROPE,
    "deepseek2.rope.scaling.type": "yarn",
    "deepseek2.rope.scaling.factor": 64.0,
    "deepseek2.rope.scaling.original_context_length": 4096,
    "deepseek2.rope.scaling.yarn_log_multiplier": 0.1,
    "deepseek2.leading_dense_block_count": 1,
    "deepseek2.vocab_size": VOCABULARY,
    "deepseek2.attention.q_lora_rank": Q_LORA,
    "deepseek2.attention.kv_lora_rank": KV_LORA,
    "deepseek2.attention.key_length": KV_LORA + ROPE,
    "deepseek2.attention.value_length": KV_LORA,
    "deepseek2.attention.key_length_mla": NOPE + ROPE,
    "deepseek2.attention.value_length_mla": V_HEAD,
    "deepseek2.expert_feed_forward_length": EXPERT,
    "deepseek2.expert_count": EXPERTS,
    "deepseek2.expert_used_count": 8,
    "deepseek2.expert_shared_count": 1,
    "deepseek2.expert_weights_scale": 2.827,
    "deepseek2.expert_weights_norm": True,
    "deepseek2.expert_gating_func": 2,
}


def k2_vocabulary(tokens: int = VOCABULARY) -> dict[str, Any]:
    """A vocabulary of the real length, about as long in bytes as the real one."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    alphabet = {byte: chr(byte) for byte in printable} | {byte: chr(256 + n) for n, byte in enumerate(others)}
    words = [alphabet[byte] for byte in range(256)] + ["[BOS]", "[EOS]"]
    words += [f"[T{number}]" for number in range(len(words), tokens)]
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "kimi-k2",
        "tokenizer.ggml.tokens": words,
        "tokenizer.ggml.token_type": [1] * 256 + [3] * 2 + [5] * (tokens - 258),
        "tokenizer.ggml.merges": [f"{alphabet[n % 256]} {alphabet[n // 256 % 256]}" for n in range(tokens)],
        "tokenizer.ggml.bos_token_id": 256,
        "tokenizer.ggml.eos_token_id": 257,
    }


def k2_gguf_tensors(gate_up: str, down: str, rest: str = "Q8_0") -> Iterable[tuple[str, str, tuple[int, ...]]]:
    """The 1096 tensors of a Kimi K2 GGUF."""
    yield from (("token_embd.weight", rest, (HIDDEN, VOCABULARY)), ("output_norm.weight", "F32", (HIDDEN,)))
    yield "output.weight", rest, (HIDDEN, VOCABULARY)
    for layer in range(LAYERS):
        block = f"blk.{layer}."
        yield from (
            (block + "attn_norm.weight", "F32", (HIDDEN,)),
            (block + "attn_q_a_norm.weight", "F32", (Q_LORA,)),
            (block + "attn_kv_a_norm.weight", "F32", (KV_LORA,)),
            (block + "attn_q_a.weight", rest, (HIDDEN, Q_LORA)),
            (block + "attn_q_b.weight", rest, (Q_LORA, HEADS * (NOPE + ROPE))),
            (block + "attn_kv_a_mqa.weight", rest, (HIDDEN, KV_LORA + ROPE)),
            (block + "attn_k_b.weight", rest, (NOPE, KV_LORA, HEADS)),
            (block + "attn_v_b.weight", rest, (KV_LORA, V_HEAD, HEADS)),
            (block + "attn_output.weight", rest, (HEADS * V_HEAD, HIDDEN)),
            (block + "ffn_norm.weight", "F32", (HIDDEN,)),
        )
        if layer == 0:
            for name, shape in (("gate", (HIDDEN, DENSE)), ("up", (HIDDEN, DENSE)), ("down", (DENSE, HIDDEN))):
                yield f"{block}ffn_{name}.weight", rest, shape
            continue
        yield block + "ffn_gate_inp.weight", "F32", (HIDDEN, EXPERTS)
        yield block + "exp_probs_b.bias", "F32", (EXPERTS,)
        for name, dtype in (("gate", gate_up), ("up", gate_up), ("down", down)):
            inner, outer = (EXPERT, HIDDEN) if name == "down" else (HIDDEN, EXPERT)
            yield f"{block}ffn_{name}_exps.weight", dtype, (inner, outer, EXPERTS)
            yield f"{block}ffn_{name}_shexp.weight", rest, (inner, outer)


def write_k2_gguf(path: Path, gate_up: str = "Q4_0", down: str | None = None, *, vocabulary: int = 1024) -> None:
    write_gguf(path, K2_KEYS | k2_vocabulary(vocabulary), k2_gguf_tensors(gate_up, down or gate_up))


K26_CONFIG: dict[str, Any] = {
    "architectures": ["KimiK25ForConditionalGeneration"],
    "model_type": "kimi_k25",
    "text_config": {
        "architectures": ["DeepseekV3ForCausalLM"],
        "num_hidden_layers": LAYERS,
        "hidden_size": HIDDEN,
        "vocab_size": VOCABULARY,
        "num_attention_heads": HEADS,
        "num_key_value_heads": HEADS,
        "q_lora_rank": Q_LORA,
        "kv_lora_rank": KV_LORA,
        "qk_nope_head_dim": NOPE,
        "qk_rope_head_dim": ROPE,
        "v_head_dim": V_HEAD,
        "intermediate_size": DENSE,
        "moe_intermediate_size": EXPERT,
        "n_routed_experts": EXPERTS,
        "num_experts_per_tok": 8,
        "n_shared_experts": 1,
        "first_k_dense_replace": 1,
        "num_nextn_predict_layers": 0,
        "max_position_embeddings": 262_144,
        "rope_scaling": {"type": "yarn", "factor": 64.0, "original_max_position_embeddings": 4096},
        "quantization_config": {
            "quant_method": "compressed-tensors",
            "format": "pack-quantized",
            "config_groups": {"group_0": {"weights": {"num_bits": 4, "group_size": 32, "type": "int"}}},
        },
    },
    "vision_config": {"vt_hidden_size": 1152, "vt_num_hidden_layers": 27, "vt_intermediate_size": 4304},
}


def k26_shards() -> list[list[tuple[str, str, tuple[int, ...]]]]:
    """The tensors of moonshotai/Kimi-K2.6 in 64 shards: INT4 experts in groups of 32, all else bfloat16."""
    text, head = "language_model.model.", "language_model.lm_head.weight"
    shards = [[*_k26_attention(text, 0), *_mlp(f"{text}layers.0.mlp.", DENSE)]]
    for layer in range(1, LAYERS):
        mlp = f"{text}layers.{layer}.mlp."
        shard = [*_k26_attention(text, layer), (mlp + "gate.weight", "BF16", (EXPERTS, HIDDEN))]
        shard.append((mlp + "gate.e_score_correction_bias", "F32", (EXPERTS,)))
        shard += _mlp(mlp + "shared_experts.", EXPERT)
        for expert in range(EXPERTS):
            for name, (rows, columns) in _projections(EXPERT):
                module = f"{mlp}experts.{expert}.{name}."
                shard.append((module + "weight_packed", "I32", (rows, columns // 8)))
                shard.append((module + "weight_scale", "BF16", (rows, columns // 32)))
                shard.append((module + "weight_shape", "I32", (2,)))
        shards.append(shard)
    shards.append([(text + "embed_tokens.weight", "BF16", (VOCABULARY, HIDDEN))])
    shards.append([(text + "norm.weight", "BF16", (HIDDEN,)), (head, "BF16", (VOCABULARY, HIDDEN))])
    shards.append(list(_moonvit()))
    return shards


def write_k26_repository(folder: Path) -> Path:
    shards = k26_shards()
    for number, tensors in enumerate(shards, 1):
        write_safetensors(folder / f"model-{number:05d}-of-{len(shards):06d}.safetensors", tensors, {"format": "pt"})
    (folder / "config.json").write_text(json.dumps(K26_CONFIG))
    (folder / "chat_template.jinja").write_text("{{ messages }}")
    return folder


def _k26_attention(text: str, layer: int) -> Iterable[tuple[str, str, tuple[int, ...]]]:
    block, attention = f"{text}layers.{layer}.", f"{text}layers.{layer}.self_attn."
    for norm in ("input_layernorm", "post_attention_layernorm"):
        yield f"{block}{norm}.weight", "BF16", (HIDDEN,)
    yield attention + "q_a_proj.weight", "BF16", (Q_LORA, HIDDEN)
    yield attention + "q_a_layernorm.weight", "BF16", (Q_LORA,)
    yield attention + "q_b_proj.weight", "BF16", (HEADS * (NOPE + ROPE), Q_LORA)
    yield attention + "kv_a_proj_with_mqa.weight", "BF16", (KV_LORA + ROPE, HIDDEN)
    yield attention + "kv_a_layernorm.weight", "BF16", (KV_LORA,)
    yield attention + "kv_b_proj.weight", "BF16", (HEADS * (NOPE + V_HEAD), KV_LORA)
    yield attention + "o_proj.weight", "BF16", (HIDDEN, HEADS * V_HEAD)


def _projections(width: int) -> Iterable[tuple[str, tuple[int, int]]]:
    return (("gate_proj", (width, HIDDEN)), ("up_proj", (width, HIDDEN)), ("down_proj", (HIDDEN, width)))


def _mlp(prefix: str, width: int) -> Iterable[tuple[str, str, tuple[int, ...]]]:
    return [(f"{prefix}{name}.weight", "BF16", shape) for name, shape in _projections(width)]


def _moonvit() -> Iterable[tuple[str, str, tuple[int, ...]]]:
    width, inner, merged = 1152, 4304, 4 * 1152
    tower, projector = "vision_tower.", "mm_projector."
    yield tower + "patch_embed.proj.weight", "BF16", (width, 3, 14, 14)
    yield tower + "patch_embed.proj.bias", "BF16", (width,)
    yield tower + "patch_embed.pos_emb.weight", "BF16", (64, 64, width)
    for block in range(27):
        name = f"{tower}encoder.blocks.{block}."
        for module, rows, columns in (
            ("wqkv", 3 * width, width),
            ("wo", width, width),
            ("mlp.fc0", inner, width),
            ("mlp.fc1", width, inner),
        ):
            yield f"{name}{module}.weight", "BF16", (rows, columns)
            yield f"{name}{module}.bias", "BF16", (rows,)
        for norm in ("norm0", "norm1"):
            yield f"{name}{norm}.weight", "BF16", (width,)
            yield f"{name}{norm}.bias", "BF16", (width,)
    for norm in (tower + "encoder.final_layernorm.", projector + "pre_norm."):
        yield norm + "weight", "BF16", (width,)
        yield norm + "bias", "BF16", (width,)
    for module, rows in (("proj.0.", merged), ("proj.2.", HIDDEN)):
        yield projector + module + "weight", "BF16", (rows, merged)
        yield projector + module + "bias", "BF16", (rows,)
