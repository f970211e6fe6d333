"""Models beside the corpus: what a layer keeps of them, as vLLM says when it is asked, and what nobody may guess.

The configurations and their answers are in tests/assets/configs/written.yaml.
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

WRITTEN = Path(__file__).parents[1] / "assets/configs/written.yaml"
UNCOUNTED = ("draft", "vision")
# ERNIE's experts for pictures have a width of their own.
TOLD = {"baidu/ERNIE-4.5-VL-424B-A47B-PT": ("moe_intermediate_size",)}
VLLM = Storage("vllm", "0.32.0")


@cache
def written() -> dict[str, dict[str, Any]]:
    rows = yaml.load(WRITTEN.read_text(encoding="utf-8"), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    return {row["id"]: row for row in rows["models"]}


@cache
def model(name: str) -> Model:
    return model_of(written()[name]["config"], name=name, source=name)


def changed(name: str, **keys: Any) -> Model:
    return model_of({**written()[name]["config"], **keys}, name=name, source=name)


@pytest.mark.parametrize("name", list(written()))
def test_a_layer_keeps_what_the_engine_says(name: str) -> None:
    right, shape = written()[name]["right"], cache_shape(model(name).architecture, "bf16", storage=VLLM)
    windows: dict[int, int] = {}
    for window in shape.windows:
        windows[window.tokens] = windows.get(window.tokens, 0) + window.bytes_per_token
    assert shape.bytes_per_token == right["grows"]
    assert windows == right["windows"]
    assert shape.bytes_per_state == right["state"]
    assert model(name).not_understood == TOLD.get(name, ())


@pytest.mark.parametrize("name", [name for name, row in written().items() if row["right"].get("parameters")])
def test_parameters_are_those_that_vllm_builds(name: str) -> None:
    counted = sum(line.parameters for line in model(name).weights if line.group not in UNCOUNTED)
    # Correction biases of routers and scalars are buffers in one and parameters in the other.
    assert counted == pytest.approx(written()[name]["right"]["parameters"], rel=2e-5)


def test_draft_layers_of_some_families_are_dense() -> None:
    """As published: Step-3.5-Flash has 196 billion parameters beside its drafts, MiMo-V2 309."""
    for name, most in (("stepfun-ai/Step-3.5-Flash", 199e9), ("XiaomiMiMo/MiMo-V2.5", 312e9)):
        assert 0 < sum(line.parameters for line in model(name).weights if line.group == "draft") < 3e9
        assert sum(line.parameters for line in model(name).weights) < most


def test_a_file_that_does_not_speak_of_draft_layers_has_none() -> None:
    kimi = model("moonshotai/Kimi-VL-A3B-Instruct")
    assert kimi.architecture.draft_layers == 0
    assert "num_nextn_predict_layers" in {taken.key for taken in kimi.assumed}


def test_tables_of_ngrams_are_counted() -> None:
    """LongCat-Flash-Lite is published with 68.5 billion parameters, of which 31.4 are n-gram embeddings."""
    lite = model("meituan-longcat/LongCat-Flash-Lite")
    assert sum(line.parameters for line in lite.weights) == pytest.approx(68.5e9, rel=2e-3)
    assert sum(line.parameters for line in lite.weights if line.group == "tables") == pytest.approx(31.4e9, rel=2e-3)


def test_a_key_that_repeats_its_twin_is_no_stranger_and_one_that_differs_is() -> None:
    nano = "nvidia/NVIDIA-Nemotron-Nano-9B-v2"
    assert written()[nano]["config"]["num_query_groups"] == 8
    assert changed(nano, num_query_groups=4).not_understood == ("num_query_groups",)
    assert "attention_head_dim" in changed(nano, attention_head_dim=64).not_understood


def test_a_class_of_nobodys_is_read_by_its_type_and_that_is_told() -> None:
    step = changed("stepfun-ai/Step-3.5-Flash", architectures=["Step3p7FlashForCausalLM"], model_type="step3p7")
    assert step.architecture.name == "Step3p5ForCausalLM"
    assert "architectures" in {taken.key for taken in step.assumed}
    shape = cache_shape(step.architecture, "bf16", storage=Storage("sglang"))
    assert (shape.bytes_per_token, len(shape.windows)) == (49_152, 1)


def test_experts_that_are_stored_apart_are_sized_apart() -> None:
    """vLLM 0.32.0 quantization/fp8.py:199: `store_dtype` speaks of routed experts."""
    declared = {"quant_method": "fp8", "weight_block_size": [128, 128], "store_dtype": "mxfp4"}
    packed = changed("XiaomiMiMo/MiMo-V2.5", quantization_config=declared)
    assert {line.dtype for line in packed.weights if line.group == "routed_experts"} == {"MXFP4"}
    other = changed("XiaomiMiMo/MiMo-V2.5", quantization_config={**declared, "store_dtype": "fp3"})
    assert other.not_understood == ("quantization_config",)


def test_an_unknown_format_of_weights_leaves_the_cache_known() -> None:
    from upright.facts import catalog
    from upright.facts.records.plan import Goal
    from upright.planning.choosing import plan

    strange = changed("ByteDance-Seed/Seed-OSS-36B-Instruct", quantization_config={"quant_method": "nobodys"})
    (best, *_) = plan(catalog.box_record("8x-rtx-pro-6000-server"), strange, Goal(engine="vllm", context_tokens=4096))
    assert best.not_understood == ("quantization_config",)
    assert best.kv.bytes_per_token == best.kv.low_bytes_per_token == best.kv.high_bytes_per_token == 262_144
    assert "quantization_config is not understood" in best.objections[0].message


def test_a_least_is_no_nought_where_a_layer_keeps_every_token() -> None:
    olmo = changed("allenai/Olmo-3-32B-Think", cache_stride=4).architecture
    assert olmo.attention_at_least
    strange = changed("allenai/Olmo-3-32B-Think", hybrid_mixer=4).architecture
    assert strange.attention_at_least == ()
