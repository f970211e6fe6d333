"""Configurations that the readers had not met: right, or told by key; never a wrong figure in silence.

The configurations and their answers are in tests/assets/configs/unseen.yaml; docs/reading.md has the count.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from upright.facts.records.model import Model
from upright.models.deriving.model import model_of
from upright.planning.memory.kvcache import cache_shape
from upright.planning.memory.layouts import Storage

ROOT = Path(__file__).parents[2]
UNSEEN = ROOT / "tests/assets/configs/unseen.yaml"
UNCOUNTED = ("draft", "vision")
VLLM = Storage("vllm", "0.32.0")


@cache
def unseen() -> dict[str, dict[str, Any]]:
    rows = yaml.load(UNSEEN.read_text(encoding="utf-8"), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    return {row["id"]: row for row in rows["models"]}


@cache
def model(name: str) -> Model:
    return model_of(unseen()[name]["config"], name=name, source=name)


def changed(name: str, **keys: Any) -> Model:
    config = dict(unseen()[name]["config"])
    if "text_config" in config:
        return model_of({**config, "text_config": {**config["text_config"], **keys}}, name=name, source=name)
    return model_of({**config, **keys}, name=name, source=name)


def counted(read: Model) -> int:
    return sum(line.parameters for line in read.weights if line.group not in UNCOUNTED)


ANSWERED = [name for name, row in unseen().items() if "refused" not in row["right"]]


@pytest.mark.parametrize("name", ANSWERED)
def test_a_token_takes_what_the_engine_stores(name: str) -> None:
    right, windows = unseen()[name]["right"], {}
    shape = cache_shape(model(name).architecture, "bf16", storage=VLLM)
    for window in shape.windows:
        windows[window.tokens] = windows.get(window.tokens, 0) + window.bytes_per_token
    assert (shape.bytes_per_token, windows) == (right["grows"], right["windows"])
    assert shape.bytes_per_state == right.get("state", shape.bytes_per_state)
    assert model(name).not_understood == ()


@pytest.mark.parametrize("name", [name for name in ANSWERED if "parameters" in unseen()[name]["right"]])
def test_parameters_are_as_published_or_built(name: str) -> None:
    assert counted(model(name)) / 1e9 == pytest.approx(unseen()[name]["right"]["parameters"], rel=0.01)


@pytest.mark.parametrize("name", [name for name in unseen() if name not in ANSWERED])
def test_what_no_reader_knows_is_told(name: str) -> None:
    assert set(unseen()[name]["right"]["refused"]) <= set(model(name).not_understood)


def test_layers_that_share_a_cache_may_be_twice_as_wide() -> None:
    """vLLM 0.32.0 models/gemma4.py:595-607."""
    small = "google/gemma-4-E2B-it"
    widths = 20 * 3 * 1536 * 6144
    assert counted(model(small)) - counted(changed(small, use_double_wide_mlp=False)) == widths
    assert counted(changed(small, num_kv_shared_layers=0)) < counted(model(small))


def test_widths_by_layer_are_counted_by_layer() -> None:
    """A list of widths was once read as its largest."""
    llama = "meta-llama/Llama-3.2-1B-Instruct"
    narrow = [8192] * 8 + [4096] * 8
    assert counted(model(llama)) - counted(changed(llama, intermediate_size=narrow)) == 8 * 3 * 2048 * 4096
    short = changed(llama, intermediate_size=[8192] * 3)
    assert "intermediate_size" in short.not_understood


def test_an_output_gate_is_as_wide_as_its_file_says() -> None:
    """vLLM 0.32.0 models/laguna.py:327-336: a number a head, or one a value."""
    laguna = "poolside/Laguna-XS.2-FP8"
    heads = 10 * 48 + 30 * 64
    assert counted(changed(laguna, gating="per-element")) - counted(model(laguna)) == heads * 127 * 2048
    assert counted(model(laguna)) - counted(changed(laguna, gating=False)) == heads * 2048


def test_an_expression_is_tried_on_what_others_call_a_part() -> None:
    """`ffn` and `wq_b` are our `mlp` and `q_b_proj`."""
    mixed = model("RedHatAI/DeepSeek-V4-Flash-NVFP4-FP8")
    labels = {(line.group, line.dtype) for line in mixed.weights}
    assert ("routed_experts", "NVFP4") in labels
    assert ("attention", "FP8_B128") in labels


def test_a_group_of_a_quantisation_that_names_no_tensor_is_told() -> None:
    name = "RedHatAI/DeepSeek-V4-Flash-NVFP4-FP8"
    declared = unseen()[name]["config"]["quantization_config"]
    groups = {**declared["config_groups"]}
    groups["group_1"] = {**groups["group_1"], "targets": ["re:.*nobodys_part$"]}
    strange = changed(name, quantization_config={**declared, "config_groups": groups})
    assert strange.not_understood == ("quantization_config",)


def test_the_docs_have_the_count() -> None:
    told = len(unseen()) - len(ANSWERED)
    text = " ".join((ROOT / "docs/reading.md").read_text(encoding="utf-8").split())
    assert f"Of {len(unseen())} configurations gathered so, {len(ANSWERED)} are read right and {told} " in text
