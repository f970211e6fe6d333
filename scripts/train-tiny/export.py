"""Weights + tokenizer -> what engines load: a folder of safetensors (vLLM, SGLang) and GGUF files (llama.cpp).

The safetensors are padded to Kimi's latent sizes (kv_lora 512, rope 64), which vLLM's kernels for CPUs want. The
padding is exact: same logits, more zeros. GGUF keeps the narrow sizes, which llama.cpp serves about twice as fast.
"""

from __future__ import annotations

import argparse
import json
import math
from dataclasses import replace
from pathlib import Path

import gguf
import numpy
import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer
from torch import Tensor

from eagle import AUXILIARY
from model import POSITIONS, Shape
from template import TEMPLATE
from train import SHAPES

Tensors = dict[str, Tensor]
_KIMI_KV_RANK, _KIMI_ROPE = 512, 64
_PROJECTIONS = ("gate_proj", "up_proj", "down_proj")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=SHAPES)
    parser.add_argument("weights", type=Path)
    parser.add_argument("tokenizer", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--gguf", nargs="*", default=["q8_0"], choices=["q8_0", "f16"])
    parser.add_argument("--no-safetensors", action="store_true")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    shape, tokenizer = SHAPES[args.name], Tokenizer.from_file(str(args.tokenizer))
    if args.name == "eagle3":
        write_head(args.out / "eagle3", torch.load(args.weights)["model"], shape, tokenizer)
        return
    label = "tiny-kimi" if args.name == "tiny" else f"tiny-kimi-{args.name}"
    tensors = named(torch.load(args.weights)["model"], shape)
    if not args.no_safetensors:
        wide = replace(shape, kv_rank=_KIMI_KV_RANK, rope=_KIMI_ROPE)
        write_folder(args.out / "safetensors", padded(tensors, shape, wide), wide, tokenizer)
    for kind in args.gguf:
        write_gguf(args.out / f"{label}-{kind}.gguf", label, kind, tensors, shape, tokenizer)


def named(state: Tensors, shape: Shape) -> Tensors:
    """The trainer's tensors by the names that Hugging Face gives them; experts one by one."""
    out: Tensors = {}
    for name, tensor in state.items():
        prefix = "" if name.startswith("lm_head") else "model."
        base, _, leaf = name.rpartition(".mlp.")
        if leaf == "router":
            out[f"model.{base}.mlp.gate.weight"] = tensor
        elif leaf == "bias":
            out[f"model.{base}.mlp.gate.e_score_correction_bias"] = tensor
        elif leaf in ("gate", "up", "down"):
            for expert, part in enumerate(tensor.split(shape.expert_width, 1 if leaf == "down" else 0)):
                out[f"model.{base}.mlp.experts.{expert}.{leaf}_proj.weight"] = part
        elif leaf != "load":
            out[prefix + name] = tensor
    return {name: tensor.detach().float().contiguous() for name, tensor in out.items()}


def padded(tensors: Tensors, shape: Shape, wide: Shape) -> Tensors:
    """The same function with a wider latent.

    The normalisation now averages over more channels and the softmax divides by a larger root; both go into weights.
    """
    out = dict(tensors)
    more, stretch = wide.kv_rank - shape.kv_rank, math.sqrt((wide.nope + wide.rope) / (shape.nope + shape.rope))
    for layer in range(shape.layers):
        name = f"model.layers.{layer}.self_attn."
        q = tensors[name + "q_b_proj.weight"].view(shape.heads, shape.nope + shape.rope, shape.q_rank)
        spread = torch.cat((q[:, : shape.nope], _spread(q[:, shape.nope :], wide.rope)), 1)
        out[name + "q_b_proj.weight"] = stretch * spread.flatten(0, 1)
        kv_a = tensors[name + "kv_a_proj_with_mqa.weight"]
        latent, rope = kv_a[: shape.kv_rank], kv_a[shape.kv_rank :]
        out[name + "kv_a_proj_with_mqa.weight"] = torch.cat(
            (latent, latent.new_zeros(more, kv_a.shape[1]), _spread(rope, wide.rope))
        )
        norm = tensors[name + "kv_a_layernorm.weight"] * math.sqrt(shape.kv_rank / wide.kv_rank)
        out[name + "kv_a_layernorm.weight"] = torch.cat((norm, norm.new_zeros(more)))
        kv_b = tensors[name + "kv_b_proj.weight"]
        out[name + "kv_b_proj.weight"] = torch.cat((kv_b, kv_b.new_zeros(len(kv_b), more)), 1)
    return out


def _spread(rows: Tensor, rope: int) -> Tensor:
    """Pair i goes to pair i * rope / narrow, where the wider table has the same frequency; the others stay zero."""
    narrow, every = rows.shape[-2], rope // rows.shape[-2]
    out = rows.new_zeros(*rows.shape[:-2], rope, rows.shape[-1])
    for pair in range(0, narrow, 2):
        out[..., pair * every : pair * every + 2, :] = rows[..., pair : pair + 2, :]
    return out


def config(shape: Shape, tokenizer: Tokenizer) -> dict[str, object]:
    # Guard: vLLM's CPU rotary kernel is wrong for MLA with plain RoPE (0.32.0), while YaRN takes the native path; this
    # YaRN changes nothing. RotaryEmbedding.forward_cpu hands a 3-D query to ops.rotary_embedding.
    rope = {
        "type": "yarn",
        "rope_type": "yarn",
        "factor": 1.0,
        "original_max_position_embeddings": POSITIONS,
        "beta_fast": 1.0,
    }
    rope |= {"beta_slow": 1.0, "mscale": 1.0, "mscale_all_dim": 1.0}
    return {
        "architectures": ["DeepseekV3ForCausalLM"],
        "model_type": "deepseek_v3",
        "vocab_size": shape.vocabulary,
        "hidden_size": shape.hidden,
        "intermediate_size": shape.dense_width,
        "moe_intermediate_size": shape.expert_width,
        "num_hidden_layers": shape.layers,
        "first_k_dense_replace": shape.dense_layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.heads,
        "q_lora_rank": shape.q_rank,
        "kv_lora_rank": shape.kv_rank,
        "qk_nope_head_dim": shape.nope,
        "qk_rope_head_dim": shape.rope,
        "v_head_dim": shape.value,
        "n_routed_experts": shape.experts,
        "n_shared_experts": 1,
        "num_experts_per_tok": shape.experts_used,
        "routed_scaling_factor": shape.routed_scale,
        "scoring_func": "sigmoid",
        "topk_method": "noaux_tc",
        "norm_topk_prob": True,
        "n_group": 1,
        "topk_group": 1,
        "moe_layer_freq": 1,
        "num_nextn_predict_layers": 0,
        "hidden_act": "silu",
        "max_position_embeddings": POSITIONS,
        "rms_norm_eps": shape.epsilon,
        "rope_theta": shape.theta,
        "rope_scaling": rope,
        "rope_interleave": True,
        "attention_bias": False,
        "tie_word_embeddings": False,
        "bos_token_id": tokenizer.token_to_id("[BOS]"),
        "eos_token_id": tokenizer.token_to_id("<|im_end|>"),
        "pad_token_id": tokenizer.token_to_id("[PAD]"),
        "torch_dtype": "bfloat16",
    }


def write_folder(folder: Path, tensors: Tensors, shape: Shape, tokenizer: Tokenizer) -> None:
    folder.mkdir(exist_ok=True)
    tokens = {"bos_token": "[BOS]", "eos_token": "<|im_end|>", "pad_token": "[PAD]", "unk_token": "[UNK]"}
    files: dict[str, dict[str, object]] = {
        "config.json": config(shape, tokenizer),
        "generation_config.json": {"eos_token_id": tokenizer.token_to_id("<|im_end|>"), "do_sample": False},
        "tokenizer_config.json": {
            "tokenizer_class": "PreTrainedTokenizerFast",
            **tokens,
            "model_max_length": POSITIONS,
            "clean_up_tokenization_spaces": False,
        },
    }
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content, indent=1) + "\n")
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    tokenizer.save(str(folder / "tokenizer.json"))
    rounded = {name: tensor if "bias" in name else tensor.bfloat16() for name, tensor in tensors.items()}
    save_file(rounded, folder / "model.safetensors", metadata={"format": "pt"})


_BLOCK_NAMES = {
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "self_attn.q_a_proj": "attn_q_a",
    "self_attn.q_a_layernorm": "attn_q_a_norm",
    "self_attn.q_b_proj": "attn_q_b",
    "self_attn.kv_a_proj_with_mqa": "attn_kv_a_mqa",
    "self_attn.kv_a_layernorm": "attn_kv_a_norm",
    "self_attn.o_proj": "attn_output",
}


def write_head(folder: Path, state: Tensors, shape: Shape, tokenizer: Tokenizer) -> None:
    """The EAGLE-3 head as vLLM reads it: one layer, no embedding and no output matrix of its own."""
    folder.mkdir(exist_ok=True)
    wide = replace(shape, kv_rank=_KIMI_KV_RANK, rope=_KIMI_ROPE)
    layer = {f"model.layers.0.{name}": tensor.detach().float() for name, tensor in state.items()}
    tensors = {
        name.removeprefix("model.layers.0."): tensor.to(torch.bfloat16).contiguous()
        for name, tensor in padded(layer, shape, wide).items()
    }
    outer = ("fc.", "norm.")
    named_as_vllm = {name if name.startswith(outer) else f"midlayer.{name}": tensor for name, tensor in tensors.items()}
    save_file(named_as_vllm, folder / "model.safetensors", metadata={"format": "pt"})
    # Guard: vLLM 0.32.0 takes a draft of model_type deepseek_v3 for an MTP layer and refuses it
    # (config/speculative.py, hf_config_override).
    own = {"architectures": ["Eagle3DeepseekV2ForCausalLM"], "model_type": "deepseek_v2"}
    states = {"eagle_config": {"eagle_aux_hidden_state_layer_ids": list(AUXILIARY)}}
    content = {**config(wide, tokenizer), **own, **states, "draft_vocab_size": shape.vocabulary}
    (folder / "config.json").write_text(json.dumps(content, indent=1) + "\n")


def gguf_tensors(tensors: Tensors, shape: Shape) -> Tensors:
    """By llama.cpp's names: kv_b cut in two with the key part transposed, the experts stacked."""
    out = {
        "token_embd.weight": tensors["model.embed_tokens.weight"],
        "output_norm.weight": tensors["model.norm.weight"],
        "output.weight": tensors["lm_head.weight"],
    }
    for layer in range(shape.layers):
        here, there = f"model.layers.{layer}.", f"blk.{layer}."
        for ours, theirs in _BLOCK_NAMES.items():
            out[f"{there}{theirs}.weight"] = tensors[f"{here}{ours}.weight"]
        kv_b = tensors[here + "self_attn.kv_b_proj.weight"].view(shape.heads, shape.nope + shape.value, shape.kv_rank)
        out[there + "attn_k_b.weight"] = kv_b[:, : shape.nope].transpose(1, 2)
        out[there + "attn_v_b.weight"] = kv_b[:, shape.nope :]
        if layer < shape.dense_layers:
            out |= {f"{there}ffn_{p[:-5]}.weight": tensors[f"{here}mlp.{p}.weight"] for p in _PROJECTIONS}
            continue
        out[there + "ffn_gate_inp.weight"] = tensors[here + "mlp.gate.weight"]
        out[there + "exp_probs_b.bias"] = tensors[here + "mlp.gate.e_score_correction_bias"]
        for p in _PROJECTIONS:
            each = [tensors[f"{here}mlp.experts.{expert}.{p}.weight"] for expert in range(shape.experts)]
            out[f"{there}ffn_{p[:-5]}_exps.weight"] = torch.stack(each)
            out[f"{there}ffn_{p[:-5]}_shexp.weight"] = tensors[f"{here}mlp.shared_experts.{p}.weight"]
    return out


def write_gguf(path: Path, label: str, kind: str, tensors: Tensors, shape: Shape, tokenizer: Tokenizer) -> None:
    writer = gguf.GGUFWriter(path, "deepseek2")
    writer.add_name(label)
    writer.add_type(gguf.GGUFType.MODEL)
    writer.add_quantization_version(2)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_Q8_0 if kind == "q8_0" else gguf.LlamaFileType.MOSTLY_F16)
    _describe(writer, shape)
    _add_tokenizer(writer, tokenizer)
    for name, tensor in gguf_tensors(tensors, shape).items():
        data = numpy.ascontiguousarray(tensor.numpy(), dtype=numpy.float32)
        if data.ndim == 1 or "ffn_gate_inp" in name:
            writer.add_tensor(name, data)
        elif kind == "q8_0":
            packed = gguf.quantize(data, gguf.GGMLQuantizationType.Q8_0)
            writer.add_tensor(name, packed, raw_dtype=gguf.GGMLQuantizationType.Q8_0)
        else:
            writer.add_tensor(name, data.astype(numpy.float16))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _describe(writer: gguf.GGUFWriter, shape: Shape) -> None:
    writer.add_block_count(shape.layers)
    writer.add_context_length(POSITIONS)
    writer.add_embedding_length(shape.hidden)
    writer.add_feed_forward_length(shape.dense_width)
    writer.add_leading_dense_block_count(shape.dense_layers)
    writer.add_vocab_size(shape.vocabulary)
    writer.add_layer_norm_rms_eps(shape.epsilon)
    writer.add_rope_freq_base(shape.theta)
    writer.add_rope_dimension_count(shape.rope)
    writer.add_head_count(shape.heads)
    writer.add_head_count_kv(1)
    writer.add_q_lora_rank(shape.q_rank)
    writer.add_kv_lora_rank(shape.kv_rank)
    writer.add_key_length(shape.kv_rank + shape.rope)
    writer.add_value_length(shape.kv_rank)
    writer.add_key_length_mla(shape.nope + shape.rope)
    writer.add_value_length_mla(shape.value)
    writer.add_expert_feed_forward_length(shape.expert_width)
    writer.add_expert_count(shape.experts)
    writer.add_expert_used_count(shape.experts_used)
    writer.add_expert_shared_count(1)
    writer.add_expert_weights_scale(shape.routed_scale)
    writer.add_expert_weights_norm(True)
    writer.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)


def _add_tokenizer(writer: gguf.GGUFWriter, tokenizer: Tokenizer) -> None:
    model = json.loads(tokenizer.to_str())
    vocabulary = sorted(tokenizer.get_vocab(with_added_tokens=True).items(), key=lambda item: item[1])
    kinds = [gguf.TokenType.NORMAL] * len(vocabulary)
    for token in model["added_tokens"]:
        kinds[token["id"]] = gguf.TokenType.CONTROL if token["special"] else gguf.TokenType.USER_DEFINED
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("kimi-k2")
    writer.add_token_list([token for token, _ in vocabulary])
    writer.add_token_types(kinds)
    writer.add_token_merges(
        [merge if isinstance(merge, str) else " ".join(merge) for merge in model["model"]["merges"]]
    )
    writer.add_bos_token_id(tokenizer.token_to_id("[BOS]"))
    writer.add_eos_token_id(tokenizer.token_to_id("<|im_end|>"))
    writer.add_pad_token_id(tokenizer.token_to_id("[PAD]"))
    writer.add_add_bos_token(False)
    writer.add_chat_template(TEMPLATE)


if __name__ == "__main__":
    main()
