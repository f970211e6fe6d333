"""Run inside a real vLLM's environment: parsers and divisibility checks on the catalogue's names and numbers -> JSON.

No engine is started. The tokenizer knows every token: parsers look up their own tags and nothing else.
"""

from __future__ import annotations

import json
import os
import sys
from types import SimpleNamespace

os.environ["VLLM_LOGGING_LEVEL"] = "ERROR"

from vllm.model_executor.layers.fused_moe.oracle.fp8 import refine_fp8_moe_block_shape
from vllm.reasoning import ReasoningParserManager

PLAIN, THOUGHT = "Paris.", "The user asks for a capital.</think>Paris."


class Vocabulary(dict):
    def get(self, token, default=None):
        return sum(token.encode()) + 5

    __getitem__ = get

    def __contains__(self, token):
        return True


class Tokenizer:
    vocab = property(lambda self: Vocabulary())

    def get_vocab(self):
        return Vocabulary()

    def encode(self, text, **_):
        return [sum(text.encode()) + 5]

    def decode(self, ids, **_):
        return ""


def fields(name, text):
    request = SimpleNamespace(
        chat_template_kwargs=None, include_reasoning=True, tools=None, tool_choice="auto", skip_special_tokens=True,
        reasoning_effort=None,
    )  # fmt: skip
    try:
        return ReasoningParserManager.get_reasoning_parser(name)(Tokenizer()).extract_reasoning(text, request)
    except NotImplementedError:
        return "another path"


asked = json.load(sys.stdin)
blocks = {}
for width, ranks, hidden in asked["splits"]:
    config = SimpleNamespace(intermediate_size_per_partition=width // ranks, tp_size=ranks, hidden_dim=hidden)
    blocks[f"{width}/{ranks}"] = refine_fp8_moe_block_shape(config, [128, 128])
parsers = {name: [fields(name, text) for text in (PLAIN, THOUGHT)] for name in asked["parsers"]}
print(json.dumps({"parsers": parsers, "blocks": blocks}))
