"""Replicas of attention that share the experts (DP attention with EP): memory, flags, refusals, and who offers them."""

from __future__ import annotations

import pytest

import upright
from upright.engines.constraints import recipe_situation
from upright.facts.catalog.recorded_flags import nearest_flags
from upright.facts.records.base import from_dict
from upright.facts.records.plan import Goal, Parallel, Plan
from upright.planning.choosing.engine_constraints import replicated_attention
from upright.planning.memory.weights import rank_weights
from upright.planning.requests.library import artifact_choice_for

KIMI = artifact_choice_for("kimi-k2.6").model
EIGHT = "8x-h200-sxm"


def _codes(plan: Plan) -> set[str]:
    return {objection.code for objection in plan.objections}


def _recipe(**wanted: object) -> upright.Recipe:
    return upright.render(upright.plan("kimi-k2.6", EIGHT, **wanted)[0])


def test_replicas_hold_all_of_attention_and_an_eighth_of_the_experts():
    sliced, replicated = rank_weights(KIMI, tensor=8)[0], rank_weights(KIMI, tensor=1, data=8)[0]
    experts = sum(line.bytes for line in KIMI.weights if line.group == "routed_experts")
    rest = sum(line.bytes for line in KIMI.weights if line.group not in ("routed_experts", "draft"))
    assert replicated.divided_bytes + replicated.replicated_bytes == pytest.approx(experts / 8 + rest, rel=1e-6)
    assert replicated.bytes > sliced.bytes


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_each_replica_has_its_own_cache_and_users(engine):
    of_eight = upright.plan("kimi-k2.6", EIGHT, engine=engine, users=64, context_tokens=32_000, data_parallel=8)[0]
    of_one = upright.plan(
        "kimi-k2.6", EIGHT, engine=engine, users=8, context_tokens=32_000, tensor_parallel=8, decode_context_parallel=1
    )[0]
    assert of_eight.parallel == Parallel(data=8, expert=True)
    assert of_eight.fits
    cache = {line.device: line.bytes for line in of_eight.ledger if line.term == "kv_cache"}
    assert set(cache.values()) == {8 * 32_000 * 70_272}  # 8 of 64 users on each GPU
    assert of_eight.kv.low_tokens % 8 == 0
    assert of_eight.kv.low_tokens > 2 * of_one.kv.low_tokens
    assert of_eight.largest_context_tokens <= of_eight.kv.low_tokens // 8
    assert of_eight.users_at_context == 8 * (of_eight.users_at_context // 8)
    assert of_eight.speed is None  # nothing of it was measured


@pytest.mark.parametrize(
    ("engine", "ranks"),
    [
        ("vllm", {"--tensor-parallel-size": "2", "--data-parallel-size": "4", "--enable-expert-parallel": None}),
        ("sglang", {"--tp-size": "8", "--dp-size": "4", "--enable-dp-attention": None, "--ep-size": "8"}),
    ],
)
def test_the_recipe_says_it_in_the_engines_own_flags(engine, ranks):
    recipe = _recipe(engine=engine, users=64, context_tokens=32_000, data_parallel=4)
    given = {setting.name: setting.value for setting in recipe.arguments}
    assert {name: given[name] for name in ranks} == ranks
    recorded = nearest_flags(engine, None)
    assert recorded is not None
    assert all(name in recorded for name in ranks)
    read = recipe_situation(recipe)
    assert (read.fact("tensor"), read.fact("data"), read.fact("expert_parallel")) == (2, 4, True)


def test_a_server_is_told_the_requests_of_each_replica_or_of_all():
    wanted = {"users": 64, "context_tokens": 32_000, "data_parallel": 8}
    of_each = _recipe(engine="vllm", **wanted)
    of_all = _recipe(engine="sglang", **wanted)
    each = {setting.name: setting.value for setting in of_each.arguments}
    together = {setting.name: setting.value for setting in of_all.arguments}
    assert 8 <= int(each["--max-num-seqs"]) < 64 <= int(together["--max-running-requests"])
    assert int(together["--max-running-requests"]) % 8 == 0
    assert int(together["--chunked-prefill-size"]) == 8 * int(each["--max-num-batched-tokens"])


@pytest.mark.parametrize(
    ("model", "box", "wanted", "code"),
    [
        ("qwen3-32b", EIGHT, {"data_parallel": 8}, "no-dp"),  # no experts
        ("kimi-k2.6", EIGHT, {"data_parallel": 5}, "dp-not-divisor"),  # 384 experts
        ("kimi-k2.6", EIGHT, {"data_parallel": 8, "tensor_parallel": 2, "engine": "vllm"}, "too-few-gpus"),
        ("gpt-oss-120b", "dgx-spark", {"data_parallel": 2, "engine": "llama.cpp"}, "no-ranks"),
    ],
)
def test_what_cannot_be_replicated_is_refused(model, box, wanted, code):
    best = upright.plan(model, box, **wanted)[0]
    assert code in _codes(best)


def test_replicas_are_tried_where_they_are_usual():
    """Latent attention, from 32 users, where nobody asked for another spread."""
    assert replicated_attention(KIMI, Goal(users=32), 8) == Parallel(data=8, expert=True)
    assert replicated_attention(KIMI, Goal(users=31), 8) is None
    assert replicated_attention(KIMI, Goal(users=32, tensor_parallel=8), 8) is None
    assert replicated_attention(artifact_choice_for("minimax-m2.7").model, Goal(users=64), 8) is None
    tried = upright.plan("kimi-k2.6", EIGHT, engine="sglang", users=64, context_tokens=32_000)
    assert Parallel(data=8, expert=True) in [plan.parallel for plan in tried]


def test_a_plan_of_an_older_schema_had_one_replica():
    made = upright.plan("kimi-k2.6", EIGHT)[0].to_dict()
    made["schema"] = 5
    made.pop("digest", None)
    del made["parallel"]["data"], made["goal"]["data_parallel"]
    assert from_dict(Plan, made).parallel.data == 1
