"""A file that fits and that no recorded engine reads: the plan, and the recommendation, say so."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from upright.app.cli.main import cli
from upright.facts import catalog
from upright.facts.catalog import recorded_architectures
from upright.models.deriving.catalogue_models import records
from upright.planning.placement.engine_support import UNRECORDED, unrecorded_class


def ask(*argv: str) -> dict[str, object]:
    done = CliRunner().invoke(cli, [*argv, "--json"])
    assert done.stdout.startswith("{"), done.stderr
    content: dict[str, object] = json.loads(done.stdout)
    return content


def test_each_class_of_the_catalogue_is_judged_by_the_registry():
    judged = 0
    for row in catalog.rows("models").values():
        for model in records(row):
            if model.format != "gguf":
                continue
            judged += 1
            lacks = not recorded_architectures.has("llama.cpp", model.architecture.name)
            assert (unrecorded_class("llama.cpp", model) is not None) is lacks, model.source
            # Nobody recorded this one's registry: then nothing is said.
            assert unrecorded_class("ik_llama.cpp", model) is None
    assert judged > 50


@pytest.fixture
def older_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The registry of llama.cpp as it was recorded before MiniMax M3 was in it."""
    content = json.loads((recorded_architectures.FOLDER / "llama.cpp.json").read_text())
    kept = content["versions"][: content["versions"].index("b10438")]
    spans = {name: span[:1] for name, span in content["architectures"].items() if span[0] in kept}
    (tmp_path / "llama.cpp.json").write_text(json.dumps({"versions": kept, "architectures": spans}))
    monkeypatch.setattr(recorded_architectures, "FOLDER", tmp_path)
    recorded_architectures.registry.cache_clear()
    yield
    recorded_architectures.registry.cache_clear()


BOX = ("--box", "2x-rtx-5090", "--host-memory", "512GB")


def codes(model: str) -> set[str]:
    (plan, *_) = ask("plan", model, "--engine", "llama.cpp", *BOX, "--context", "32768")["plans"]
    assert not plan["objections"]
    return {note["code"] for note in plan["notes"]}


@pytest.mark.usefixtures("older_records")
@pytest.mark.parametrize(("model", "told"), [("minimax-m3", True), ("unsloth/Qwen3-235B-A22B-GGUF:Q8_0", False)])
def test_a_plan_says_it_beside_the_figures(model: str, told: bool):
    assert (UNRECORDED in codes(model)) is told


@pytest.mark.usefixtures("older_records")
def test_a_recommendation_says_it_too():
    done = CliRunner().invoke(cli, ["recommend", *BOX, "--all"])
    assert "MiniMax-M3" in done.stdout
    assert "up to b9839, has MiniMaxM3ForCausalLM" in " ".join(done.stdout.split())


def test_a_copy_of_a_configuration_with_a_class_of_its_own_is_known_by_its_makers():
    """A package ships the text part of MiniMax-M3 as MiniMaxM3ForCausalLM, which no engine has."""
    assert UNRECORDED not in codes("minimax-m3")
    for engine, older in (("vllm", "0.23.0"), ("sglang", "0.5.12"), ("llama.cpp", "b9839")):
        copied, own = (
            recorded_architectures.missing_architecture(engine, older, name)
            for name in ("MiniMaxM3ForCausalLM", "MiniMaxM3SparseForConditionalGeneration")
        )
        assert copied is not None, engine
        assert own is not None, engine
        assert copied == own, "the class that the engine has is named"


def test_no_class_is_renamed_to_one_that_nobody_has():
    renamed = {copied: own for row in catalog.rows("architectures").values() for copied, own in row.renamed.items()}
    engines = ("vllm", "sglang", "llama.cpp")
    assert renamed
    for copied, own in renamed.items():
        spans = [recorded_architectures.registry(engine).spans for engine in engines]
        assert any(own in span for span in spans), own
        assert not any(copied in span for span in spans), copied
