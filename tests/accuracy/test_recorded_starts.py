"""What vLLM's own start code said of a pool, beside what the arithmetic says at equal free bytes."""

from __future__ import annotations

from fractions import Fraction

import pytest

from upright.engines import engine_named
from upright.engines.constraints import circumstances, plan_situation
from upright.engines.constraints.start_code import published_configuration, start_key
from upright.engines.facets.budget import GpuShare
from upright.facts import catalog
from upright.facts.catalog.recorded_starts import RecordedStart, recorded_refusals, recorded_starts
from upright.facts.records.plan import Goal
from upright.models.deriving.catalogue_models import recorded_model
from upright.planning.memory.kvcache import cache_shape
from upright.planning.memory.layouts import Storage
from upright.planning.memory.pool_capacity import pool_tokens, rank_cache
from upright.planning.requests.plan_arguments import NamedBox, artifacts_of, box_named
from upright.planning.requests.plan_request import PlanRequest, plan_request

ENGINE = "vllm"
OFF = 0.02
BOXES = {
    "8.0": "8x-a100-sxm-80gb", "8.6": "8x-rtx-3090", "8.9": "8x-l40s", "9.0": "6x-h100-sxm", "10.0": "6x-b200-sxm",
    "10.3": "8x-b300-sxm", "12.0": "6x-rtx-pro-6000-server", "12.1": "1x-gb10",
}  # fmt: skip
NOT_DERIVED = {"zai-org--GLM-5.3-Flash"}
"""The tails of its KPool index have groups of their own, which nobody derives: 2.04 % too many."""


def pool(start: RecordedStart, version: str) -> int:
    key = start.key
    storage = Storage(ENGINE, version, key.compute_capability)
    architecture = recorded_model(key.configuration).architecture
    shape = cache_shape(architecture, key.cache_type, storage=storage, stages=key.pipeline)
    budget = engine_named(ENGINE).budget
    assert isinstance(budget, GpuShare)
    held = rank_cache(
        shape,
        storage,
        tensor=key.tensor,
        sharing=key.decode_context,
        depth=Fraction(1, key.pipeline),
        block=budget.block_tokens * key.decode_context,
    )
    assert start.free_bytes is not None
    assert start.context_tokens is not None
    return pool_tokens(held, Fraction(start.free_bytes), 1, start.context_tokens)


@pytest.mark.parametrize(("version", "least"), [("0.32.0", 700), ("0.31.0", 30)])
def test_pools_are_the_engines_own(version: str, least: int):
    told = [start for start in recorded_starts(ENGINE, version).values() if start.pool_tokens]
    assert len(told) >= least
    off = {start.key: (start.pool_tokens, pool(start, version)) for start in told}
    outside = {key.configuration for key, pair in off.items() if pair[1] != pytest.approx(pair[0], rel=OFF)}
    assert outside <= NOT_DERIVED


@pytest.mark.parametrize("capability", [
    "8.6", "12.0", *(pytest.param(each, marks=pytest.mark.slow) for each in BOXES if each not in ("8.6", "12.0"))
])  # fmt: skip
def test_no_plan_is_made_of_what_the_engine_refused(capability: str):
    """Each model that has a refusal, on a box of that architecture: what is planned is another start, or nothing."""
    refused = {key for key in recorded_refusals(ENGINE, "0.32.0") if key.compute_capability == capability}
    box = BOXES[capability]
    named = {key.configuration for key in refused}
    asked = 0
    for model in catalog.rows("models"):
        if published_configuration(model) not in named:
            continue
        planned = plan_request(
            PlanRequest(artifacts_of(model), box_named(NamedBox(box)), Goal(engine=ENGINE)), advise=lambda _: False
        )
        if not planned.best.fits:
            continue
        best, about = planned.best, circumstances(planned.artifact, box_named(NamedBox(box)))
        situation = plan_situation(ENGINE, best.engine_version, about, best.parallel, best.kv.dtype)
        assert start_key(situation) not in refused
        asked += 1
    assert asked >= 2
