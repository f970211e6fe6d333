"""What belongs to an artifact is not a family's: parsers, thinking, context."""

from __future__ import annotations

import pytest

from upright.facts import catalog
from upright.facts.catalog.model_records import record, row_of
from upright.facts.records.model import Model
from upright.facts.records.plan import Goal
from upright.facts.records.recipe import Recipe, Setting
from upright.planning.choosing import plan
from upright.planning.rendering import render
from upright.planning.rendering.recipe import RenderOptions
from upright.serving.check import check

BOX = "hgx-b200"


def artifact(name: str) -> Model:
    row = catalog.model("qwen3-235b-a22b")
    return next(model for each in row.artifacts if (model := record(row, each)) and name in model.source)


def recipe(name: str, engine: str) -> Recipe:
    model, box = artifact(name), catalog.box_record(BOX)
    made = plan(box, model, Goal(engine=engine, context_tokens=32_768))[0]
    return render(made, model, box, model_path="weights", port=8000, wishes=RenderOptions(must_be_installed=False))


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_an_instruct_release_has_no_reasoning_parser(engine):
    made = recipe("Instruct-2507", engine)
    assert "--reasoning-parser" not in {setting.name for setting in made.arguments}
    assert "--tool-call-parser" in {setting.name for setting in made.arguments}
    by_hand = Setting(name="--reasoning-parser", value="qwen3", reason="by hand")
    judged = check(made.model_copy(update={"arguments": (*made.arguments, by_hand)}))
    told = [*(refusal.message for refusal in judged.refusals), *judged.remarks]
    assert any(f"{engine}-reasoning-parser-without-thinking" in sentence for sentence in told)


@pytest.mark.parametrize(
    ("source", "thinking"),
    [
        ("Qwen/Qwen3-235B-A22B-FP8", "on"),
        ("Qwen/Qwen3-235B-A22B", "on"),
        ("Qwen/Qwen3-235B-A22B-Thinking-2507", "always"),
    ],
)
def test_a_release_that_thinks_has_one(source, thinking):
    row = row_of(artifact("Instruct-2507").model_copy(update={"source": source}))
    assert row is not None
    assert row.parsers["vllm"].reasoning == "qwen3"
    assert row.thinking is not None
    assert row.thinking.default == thinking


@pytest.mark.parametrize("row", catalog.models(), ids=lambda row: row.id)
def test_what_never_thinks_has_no_reasoning_parser(row):
    for each in row.artifacts:
        own = row.of(each.repository)
        if own.thinking is not None and own.thinking.default == "never":
            assert all(parsers.reasoning is None for parsers in own.parsers.values()), each.repository
