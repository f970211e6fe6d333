"""What is asked for and cannot be: an fp8 cache that this build cannot read, ranks that do not divide."""

from __future__ import annotations

import pytest

from upright import Goal, catalog
from upright.catalog.model_records import records
from upright.planning import plan
from upright.planning.wishes import cache_objection, dense_mla, fp8_images, fp8_patch

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
