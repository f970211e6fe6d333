"""Which version of an engine knows which architecture, by the registries that were recorded."""

from __future__ import annotations

import ast
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType

import pytest

from upright import Goal, read
from upright.facts import catalog
from upright.facts.catalog import versions
from upright.facts.catalog.recorded_architectures import missing_architecture, registry
from upright.planning.choosing import plan

ROOT = Path(__file__).parents[4]


@pytest.fixture(scope="module")
def script() -> ModuleType:
    loader = SourceFileLoader("extract_architectures", str(ROOT / "scripts/extract-architectures"))
    spec = spec_from_loader(loader.name, loader)
    assert spec is not None
    module = module_from_spec(spec)
    loader.exec_module(module)
    return module


@pytest.mark.parametrize("engine", ["vllm", "sglang", "llama.cpp"])
def test_rows_are_in_order_and_speak_of_recorded_versions(engine: str) -> None:
    known = registry(engine)
    assert known is not None
    assert list(known.versions) == sorted(known.versions, key=versions.parse)
    assert all(set(span) <= set(known.versions) and 1 <= len(span) <= 2 for span in known.spans.values())
    assert "LlamaForCausalLM" in known.spans


def test_a_version_that_lacks_the_class_is_told_with_one_that_has_it() -> None:
    """vLLM v0.26.0 and v0.27.0, vllm/model_executor/models/registry.py."""
    lacked = missing_architecture("vllm", "0.26.0", "KimiK3ForConditionalGeneration")
    assert lacked is not None
    assert lacked.since == "0.27.0"
    assert "vllm 0.26.0 does not know KimiK3ForConditionalGeneration" in lacked.sentence
    assert missing_architecture("vllm", "0.27.0", "KimiK3ForConditionalGeneration") is None


def test_what_nobody_recorded_is_not_judged() -> None:
    assert registry("nobodys") is None
    assert missing_architecture("nobodys", "1.0", "LlamaForCausalLM") is None
    assert missing_architecture("vllm", "0.26.0", "NobodysForCausalLM") is None
    assert missing_architecture("vllm", None, "LlamaForCausalLM") is None
    assert missing_architecture("vllm", "0.26.0.dev1", "KimiK3ForConditionalGeneration") is None
    assert missing_architecture("vllm", "0.1.0", "KimiK3ForConditionalGeneration") is None, "older than all recorded"
    newer = "Glm5NextForConditionalGeneration"
    assert missing_architecture("sglang", "0.5.18", newer) is not None
    assert missing_architecture("sglang", "0.5.20", newer) is None, "0.5.18 lacks it, 0.5.22 has it"


def test_a_plan_for_a_version_that_lacks_the_model_says_so() -> None:
    box = catalog.box_record("hgx-b200")
    goal = Goal(engine="vllm", engine_version="0.28.0")
    messages = [objection.message for objection in plan(box, read("glm-5.3-flash"), goal)[0].objections]
    assert any("does not know Glm5NextForConditionalGeneration" in message for message in messages)
    row_says = Goal(engine="vllm", engine_version="0.26.0")
    messages = [objection.message for objection in plan(box, read("kimi-k3"), row_says)[0].objections]
    assert sum("0.26.0" in message for message in messages) == 1, "the model's own row says it already"


def test_registries_are_read_by_their_syntax(script: ModuleType) -> None:
    table = '_TEXT_GENERATION_MODELS = {"AForCausalLM": ("a", "A")}\n_EMBEDDING_MODELS = {"B": ("b", "B")}'
    assert list(script.of_vllm(ast.parse(table))) == ["AForCausalLM"]
    assert list(script.of_sglang(ast.parse("EntryClass = [A, B]\nOther = C"))) == ["A", "B"]
    assert list(script.of_sglang(ast.parse("EntryClass = A"))) == ["A"]
    converter = '@ModelBase.register("AForCausalLM", "BModel")\nclass Model: ...\n'
    assert list(script.of_llamacpp(ast.parse(converter))) == ["AForCausalLM", "BModel"]
    assert script.spans({"0.1": {"A", "B"}, "0.2": {"B"}}) == {"A": ["0.1", "0.1"], "B": ["0.1"]}
