"""vLLM's CPU build: a pool of whole blocks in system RAM, told to the engine in bytes."""

from __future__ import annotations

import pytest

from tests.unit.planning.planning_examples import architecture, box, kimi_attention, model
from upright.facts.records.box import Box, EngineInstall
from upright.facts.records.model import Architecture, GqaAttention, Model
from upright.facts.records.plan import Goal, Plan
from upright.facts.records.recipe import Setting
from upright.planning.choosing import plan
from upright.planning.rendering import render

AMX = ("amx_bf16", "amx_int8", "amx_tile", "avx512_bf16", "avx512f")
TINY = architecture(kimi_attention(layers=4), hidden_size=256, vocabulary_size=448, context_limit_tokens=8192)


def machine(version: str = "0.32.0+cpu", gpus: int = 0) -> Box:
    install = EngineInstall(engine="vllm", version=version, program="/usr/bin/vllm")
    return box(memory_gib=24, gpus=gpus).model_copy(update={"engines": (install,)})


def with_amx(plain: Box) -> Box:
    return plain.model_copy(update={"cpu": plain.cpu.model_copy(update={"flags": AMX})})


def checkpoint(shape: Architecture = TINY) -> Model:
    return model(0.01, shape).model_copy(update={"format": "safetensors"})


def cache_setting(where: Box, what: Model) -> tuple[Plan, Setting]:
    best = plan(where, what, Goal(engine="vllm", context_tokens=1000, users=3))[0]
    recipe = render(best, what, where, model_path="/models/toy", port=8000)
    return best, next(setting for setting in recipe.arguments if setting.name == "--kv-cache-dtype")


def test_on_amx_mla_is_told_auto_and_the_bytes_are_those_of_bf16():
    """vLLM's AMX_MLA asserts the very word; tests/vllm/test_cpu_backends.py asks vLLM itself."""
    (plain, spelled), (on_amx, auto) = (
        cache_setting(where, checkpoint()) for where in (machine(), with_amx(machine()))
    )
    assert (spelled.value, auto.value) == ("bfloat16", "auto")
    assert "bf16 as planned: 4,608 bytes a token" in auto.reason
    assert (plain.kv, plain.ledger) == (on_amx.kv, on_amx.ledger)


def test_on_amx_other_attention_and_gpus_are_told_the_type():
    heads = architecture(
        GqaAttention(layers=4, heads=4, kv_heads=2, key_head_dim=64, value_head_dim=64),
        hidden_size=256,
        vocabulary_size=448,
        context_limit_tokens=8192,
    )
    assert cache_setting(with_amx(machine()), checkpoint(heads))[1].value == "bfloat16"
    assert cache_setting(with_amx(machine(gpus=1)), checkpoint())[1].value == "bfloat16"


@pytest.mark.parametrize("dtype", ["fp8", "f16", "q8_0"])
@pytest.mark.parametrize("where", [machine(), with_amx(machine())], ids=["plain", "amx"])
def test_mla_on_a_cpu_has_no_other_cache_than_bf16(where: Box, dtype: str):
    best = plan(where, checkpoint(), Goal(engine="vllm", kv_dtype=dtype))[0]
    unheard_of = ["no-cache-type"] if dtype == "q8_0" else []  # vLLM has it nowhere
    assert [no.code for no in best.objections] == [*unheard_of, "cache-not-supported"]
    assert {no.remedy for no in best.objections} == {"--kv-dtype bf16"}
    assert plan(where, checkpoint(), Goal(engine="vllm", kv_dtype="bf16"))[0].fits


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
