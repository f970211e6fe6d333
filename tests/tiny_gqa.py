"""A model with grouped queries that is as small as the tiny one: for what engines do only with such a cache.

Its weights are random and it knows nothing; its tokenizer and template are the tiny model's. It says only whole words
with a space before them, so that an answer is tokenized alike when it comes back in the next prompt.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from tests.conftest import TINY_FOLDER

HIDDEN, WIDTH, LAYERS, HEADS, KV_HEADS, HEAD_DIM, POSITIONS = 128, 256, 2, 4, 2, 64, 8704
COPIED = ("chat_template.jinja", "generation_config.json", "tokenizer.json", "tokenizer_config.json")
Tensor = np.ndarray[tuple[int, ...], np.dtype[np.float32]]


def write_tiny_gqa(folder: Path, seed: int = 27) -> Path:
    """Qwen3's architecture, in bf16: about 1 MB."""
    folder.mkdir(parents=True)
    for name in COPIED:
        shutil.copy(TINY_FOLDER / name, folder / name)
    kimi = json.loads((TINY_FOLDER / "config.json").read_text())
    same = ("vocab_size", "bos_token_id", "eos_token_id", "pad_token_id", "torch_dtype", "hidden_act", "rms_norm_eps")
    config = {name: kimi[name] for name in same} | {
        "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_size": HIDDEN, "head_dim": HEAD_DIM,
        "intermediate_size": WIDTH, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS, "max_position_embeddings": POSITIONS, "rope_theta": 10_000.0,
        "attention_bias": False, "tie_word_embeddings": False,
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))
    _write(folder / "model.safetensors", dict(_tensors(config["vocab_size"], np.random.default_rng(seed))))
    return folder


def _tensors(vocabulary: int, chance: np.random.Generator) -> Iterator[tuple[str, Tensor]]:
    def matrix(*shape: int) -> Tensor:
        return chance.normal(0.0, 0.05, shape).astype(np.float32)

    def ones(size: int) -> Tensor:
        return np.ones(size, np.float32)

    yield "model.embed_tokens.weight", matrix(vocabulary, HIDDEN)
    for layer in range(LAYERS):
        place = f"model.layers.{layer}"
        for name in ("input_layernorm", "post_attention_layernorm"):
            yield f"{place}.{name}.weight", ones(HIDDEN)
        for name, heads in (("q", HEADS), ("k", KV_HEADS), ("v", KV_HEADS)):
            yield f"{place}.self_attn.{name}_proj.weight", matrix(heads * HEAD_DIM, HIDDEN)
        yield f"{place}.self_attn.o_proj.weight", matrix(HIDDEN, HEADS * HEAD_DIM)
        for name in ("q_norm", "k_norm"):
            yield f"{place}.self_attn.{name}.weight", ones(HEAD_DIM)
        for name in ("gate", "up"):
            yield f"{place}.mlp.{name}_proj.weight", matrix(WIDTH, HIDDEN)
        yield f"{place}.mlp.down_proj.weight", matrix(HIDDEN, WIDTH)
    yield "model.norm.weight", ones(HIDDEN)
    head = matrix(vocabulary, HIDDEN)
    head[[token for token in range(vocabulary) if token not in _words()]] = 0.0
    yield "lm_head.weight", head


def _words() -> set[int]:
    """Tokens that are a whole word behind a space."""
    known = json.loads((TINY_FOLDER / "tokenizer.json").read_text())["model"]["vocab"]
    return {token for text, token in known.items() if text[0] == "Ġ" and text[1:].isalpha() and len(text) > 3}


def _write(path: Path, tensors: dict[str, Tensor]) -> None:
    """In bf16: the upper half of a float32."""
    header: dict[str, object] = {}
    content = b""
    for name, weights in tensors.items():
        data = (weights.astype("<f4").view("<u4") >> 16).astype("<u2").tobytes()
        header[name] = {
            "dtype": "BF16",
            "shape": list(weights.shape),
            "data_offsets": [len(content), len(content) + len(data)],
        }
        content += data
    head = json.dumps(header).encode()
    head += b" " * (-len(head) % 8)
    path.write_bytes(len(head).to_bytes(8, "little") + head + content)
