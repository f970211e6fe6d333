"""What is asked for and cannot be: an fp8 cache that this build cannot read, ranks that do not divide."""

from __future__ import annotations

from typing import Any

import pytest

from upright import Goal
from upright.engines import engine_named
from upright.facts import catalog
from upright.facts.catalog.model_records import records
from upright.planning.choosing import plan
from upright.planning.choosing.explanations import choice_words
from upright.planning.choosing.goal_checks import cache_objection, dense_mla, fp8_images, fp8_patch
from upright.planning.memory.kvcache import CACHE_TYPES, PACKED_SPARSE
from upright.planning.placement.engine_support import NO_CACHE_TYPE
from upright.planning.requests.plan_arguments import NamedBox, artifacts_of, box_named
from upright.planning.requests.plan_request import PlanRequest, plan_request

BOX = catalog.box_record("8x-rtx-pro-6000-server")
K26 = records(catalog.model("kimi-k2.6"))[0]
QWEN = records(catalog.model("qwen3-235b-a22b"))[0]


def objection(dtype: str, model=K26, image: str | None = None) -> str | None:
    against = cache_objection(model, BOX, Goal(image=image), "vllm", "0.32.0", dtype)
    return against.code if against else None


def test_an_fp8_cache_of_dense_mla_needs_the_patch_on_sm120() -> None:
    assert dense_mla(K26) is True
    assert dense_mla(QWEN) is False
    assert objection("fp8") == "cache-not-supported"
    assert objection("bf16") is None
    assert objection("fp8", model=QWEN) is None


def test_an_image_that_carries_the_patch_is_offered_and_lifts_it() -> None:
    images = fp8_images("vllm")
    assert images
    assert all(fp8_patch("vllm") in catalog.get("images", image).patches for image in images)
    assert objection("fp8", image=images[-1]) is None


@pytest.mark.parametrize("share", [2, 4])
def test_dcp_is_refused_from_two_on_where_an_engine_has_none(share: int) -> None:
    goal = Goal(engine="sglang", engine_version="0.5.2", tensor_parallel=8, decode_context_parallel=share)
    assert "no-dcp" in {against.code for way in plan(BOX, K26, goal) for against in way.objections}


@pytest.mark.parametrize("cache_type", CACHE_TYPES)
@pytest.mark.parametrize("engine", ["vllm", "sglang", "llama.cpp", "ik_llama.cpp"])
def test_a_cache_type_is_planned_for_the_engine_that_has_it_only(engine: str, cache_type: str) -> None:
    box, chosen = catalog.box_record("hgx-h200"), artifacts_of("gpt-oss-20b")
    best = plan(box, chosen.model, Goal(engine=engine, kv_dtype=cache_type), choose_from=chosen.choose_from)[0]
    able = cache_type in engine_named(engine).cache_types and cache_type != PACKED_SPARSE
    assert best.fits is able
    assert able or NO_CACHE_TYPE in {objection.code for objection in best.objections}


@pytest.mark.parametrize(("box", "wishes"), [
    ("1x-rtx-5090", {"engine": "vllm"}),
    ("1x-rtx-5090", {"engine": "sglang"}),
    ("3x-rtx-pro-6000", {"tensor_parallel": 3}),
])  # fmt: skip
def test_system_ram_is_not_asked_for_where_nothing_would_use_it(box: str, wishes: dict[str, Any]) -> None:
    chosen, machine = artifacts_of("kimi-k2.6"), box_named(NamedBox(box))
    assert not plan_request(PlanRequest(chosen, machine, Goal(**wishes))).ram_unknown
    assert plan_request(PlanRequest(chosen, machine, Goal())).ram_unknown


def test_what_is_not_short_of_memory_is_not_said_to_be_too_large() -> None:
    chosen, box = artifacts_of("gpt-oss-20b"), catalog.box_record("hgx-h200")
    plans = plan(box, chosen.model, Goal(engine="llama.cpp"), choose_from=chosen.choose_from)
    assert str(choice_words(plans, chosen)).endswith("are for other engines.")


def test_no_speed_is_told_of_a_context_that_the_model_was_not_made_for() -> None:
    chosen, box = artifacts_of("qwen3-30b-a3b"), catalog.box_record("hgx-h200")
    assert plan(box, chosen.model, Goal(context_tokens=1_048_576))[0].speed is None
