"""A file that fits and that no recorded engine reads: the plan, and the recommendation, say so."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from upright import catalog
from upright.catalog import recorded_architectures
from upright.cli.main import cli
from upright.deriving.catalogued import records
from upright.planning.offering import UNRECORDED, unrecorded_class


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


@pytest.mark.parametrize(("model", "told"), [("minimax-m3", True), ("qwen3-235b-a22b", False)])
def test_a_plan_says_it_beside_the_figures(model: str, told: bool):
    box = ("--box", "2x-rtx-5090", "--host-memory", "512GB", "--context", "32768")
    (plan, *_) = ask("plan", model, "--engine", "llama.cpp", *box)["plans"]
    assert not plan["objections"]
    assert (UNRECORDED in {note["code"] for note in plan["notes"]}) is told


def test_a_recommendation_says_it_too():
    done = CliRunner().invoke(cli, ["recommend", "--box", "2x-rtx-5090", "--host-memory", "512GB"])
    assert "MiniMax-M3" in done.stdout
    assert "has MiniMaxM3ForCausalLM" in " ".join(done.stdout.split())
