"""vLLM's CPU build: a pool of whole blocks in main memory, told to the engine in bytes."""

from __future__ import annotations

import pytest

from tests.unit.planning.planning_examples import architecture, box, kimi_attention, model
from upright.planning import plan
from upright.records.box import Box, EngineInstall
from upright.records.model import Model
from upright.records.plan import Goal
from upright.rendering import render

TINY = architecture(kimi_attention(layers=4), hidden_size=256, vocabulary_size=448, context_limit_tokens=8192)


def machine(version: str = "0.32.0+cpu", gpus: int = 0) -> Box:
    install = EngineInstall(engine="vllm", version=version, program="/usr/bin/vllm")
    return box(memory_gib=24, gpus=gpus).model_copy(update={"engines": (install,)})


def checkpoint() -> Model:
    return model(0.01, TINY).model_copy(update={"format": "safetensors"})


def test_the_pool_is_whole_blocks_and_one_that_is_never_given_out():
    (found,) = (each for each in plan(machine(), checkpoint(), Goal(context_tokens=1000, users=3)) if each.fits)
    assert found.kv.planned_tokens == 128 * (3 * 8 + 1)
    cache = next(line.bytes for line in found.ledger if line.term == "kv_cache")
    assert cache == found.kv.planned_tokens * 4 * 576 * 2
    assert {line.device for line in found.ledger} == {"host"}
    recipe = render(found, checkpoint(), machine(), model_path="/models/toy", port=8000)
    settings = {setting.name: setting.value for setting in recipe.arguments}
    assert settings["--kv-cache-memory-bytes"] == str(cache)
    assert "--enforce-eager" in settings
    assert "--gpu-memory-utilization" not in settings
    assert recipe.gpus == 0


def test_other_builds_still_need_a_gpu():
    best = plan(machine("0.32.0"), checkpoint(), Goal(engine="vllm"))[0]
    assert "no-gpu" in {objection.code for objection in best.objections}
    assert plan(machine(gpus=1), checkpoint(), Goal(engine="vllm"))[0].memory_fraction is not None


@pytest.mark.parametrize(
    ("goal", "code"),
    [(Goal(context_tokens=8192, users=2000), "does-not-fit"), (Goal(tensor_parallel=2), "one-rank")],
)
def test_what_stands_in_the_way(goal: Goal, code: str):
    best = plan(machine(), checkpoint(), goal.model_copy(update={"engine": "vllm"}))[0]
    assert code in {objection.code for objection in best.objections}
