"""A draft's head has a plain model's shape and is none: it is not understood, never planned as a model of one layer."""

from __future__ import annotations

import pytest

from upright.models.deriving.model import model_of

LLAMA = {
    "model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 1, "intermediate_size": 14336,
    "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 128256,
    "max_position_embeddings": 2048, "torch_dtype": "float16", "tie_word_embeddings": False,
}  # fmt: skip


@pytest.mark.parametrize(
    "name", ["LlamaForCausalLMEagle3", "EagleLlamaForCausalLM", "LlamaMedusaModel", "DFlash2DraftModel"]
)
def test_a_draft_head_is_not_understood(name):
    head = model_of({"architectures": [name], "draft_vocab_size": 32000, **LLAMA}, name="head", source="head")
    assert "architectures" in head.not_understood


def test_a_class_of_nobodys_with_a_known_type_is_read_as_its_type():
    model = model_of({"architectures": ["SomebodysLlamaForCausalLM"], **LLAMA}, name="m", source="m")
    assert "architectures" not in model.not_understood
    assert model.architecture.name == "LlamaForCausalLM"
