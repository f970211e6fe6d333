"""What vLLM's own start code said of a pool, beside what the arithmetic says at equal free bytes."""

from __future__ import annotations

from fractions import Fraction

import pytest

from upright.engines import engine_named
from upright.engines.facets.budget import GpuShare
from upright.facts.catalog.recorded_starts import RecordedStart, recorded_starts
from upright.models.deriving.catalogue_models import recorded_model
from upright.planning.memory.kvcache import cache_shape
from upright.planning.memory.layouts import Storage
from upright.planning.memory.pool_capacity import pool_tokens, rank_cache

ENGINE, VERSION = "vllm", "0.32.0"
OFF = 0.02


def pool(start: RecordedStart) -> int:
    key = start.key
    storage = Storage(ENGINE, VERSION, key.compute_capability)
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


def test_pools_are_the_engines_own():
    told = [start for start in recorded_starts(ENGINE, VERSION).values() if start.pool_tokens]
    assert len(told) >= 150
    off = {start.key: (start.pool_tokens, pool(start)) for start in told}
    assert {key: pair for key, pair in off.items() if pair[1] != pytest.approx(pair[0], rel=OFF)} == {}
