"""Published builds that report several pools: a plan that has seen one start predicts the others.

A build that no fit has seen is up to 9 % off (scripts/pool-errors). After one start it must be within 1 %:
that is the band which plans promise once everything beside weights and cache was measured.
"""

from __future__ import annotations

from itertools import permutations

import pytest

from scripts.fitting.pools import pools
from upright.base.units import GIB
from upright.engines import engine_named
from upright.facts import catalog
from upright.facts.catalog.model_records import records
from upright.facts.catalog.rows.memory import PoolRow
from upright.facts.records.base import Figure
from upright.facts.records.box import Box, Cpu, Gpu
from upright.facts.records.plan import Goal, Plan
from upright.facts.records.residuals import Residuals
from upright.planning.choosing import plan
from upright.planning.placement.planned_vs_actual import StartReading, planned_vs_actual

# One that leaves CUDA graphs outside the fraction, as these builds did.
VERSION = "0.20.0"


def builds() -> dict[str, list[PoolRow]]:
    """Settings of one build that differ only in how the cache is shared."""
    found: dict[str, list[PoolRow]] = {}
    for row in pools():
        if row.engine == "vllm" and not row.graphs_counted:
            found.setdefault(f"{row.image} {row.gpu} tp{row.tensor} {row.draft} {row.memory_fraction}", []).append(row)
    return {name: rows for name, rows in found.items() if len(rows) > 1}


def machine(pool: PoolRow) -> Box:
    row = catalog.gpu(pool.gpu)
    memory = Figure(value=row.memory_bytes, basis="catalog", source=pool.gpu)
    gpus = tuple(
        Gpu(
            index=index,
            name=row.id,
            row=row.id,
            compute_capability=row.compute_capability,
            memory_bytes=memory,
            memory_free_bytes=memory,
        )
        for index in range(pool.tensor)
    )
    host = Figure(value=512 * GIB, basis="assumed", source="test")
    cpu = Cpu(name="cpu", sockets=2, cores=64, threads=128)
    return Box(name="box", basis="catalog", cpu=cpu, memory_bytes=host, memory_available_bytes=host, gpus=gpus)


def planned(pool: PoolRow, measured: tuple[Residuals, ...] = ()) -> Plan:
    goal = Goal(
        context_tokens=8192,
        engine="vllm",
        engine_version=VERSION,
        kv_dtype=pool.kv_dtype,
        tensor_parallel=pool.tensor,
        decode_context_parallel=pool.decode_context,
        memory_fraction=pool.memory_fraction,
        draft=pool.draft != "none",
    )
    return plan(machine(pool), records(catalog.model(pool.model))[0], goal, measured=measured)[0]


def started(pool: PoolRow) -> Residuals:
    """The start that the row reports, as vLLM would log it."""
    found = planned(pool)
    weights = sum(line.bytes for line in found.ledger if line.device == "gpu0" and "weights" in line.term)
    cache = pool.tokens * found.kv.bytes_per_token * found.kv.copies / pool.tensor
    log = (
        f"(Worker_TP0 pid=1) INFO [x.py:1] Model loading took {weights / GIB:.2f} GiB memory and 1.0 seconds\n"
        f"(Worker_TP0 pid=1) INFO [x.py:2] Available KV cache memory: {cache / GIB:.2f} GiB\n"
        f"(EngineCore pid=2) INFO [x.py:3] GPU KV cache size: {pool.tokens:,} tokens\n"
    )
    seen = StartReading(engine_named("vllm").log.memory(log))
    return planned_vs_actual(found, seen, deployment=pool.id, at="2026-01-01", box_identity=machine(pool).identity)


BUILDS = builds()


@pytest.mark.parametrize("build", BUILDS)
def test_one_start_predicts_the_other_pools_of_its_build(build: str):
    for seen, asked in permutations(BUILDS[build], 2):
        found = planned(asked, (started(seen),))
        assert found.kv.capacity_tokens == pytest.approx(asked.tokens, rel=0.01), (seen.id, asked.id)
        assert found.kv.low_tokens <= asked.tokens <= found.kv.high_tokens, (seen.id, asked.id)


def test_there_are_enough_of_them():
    assert len(BUILDS) >= 6
    assert sum(len(rows) for rows in BUILDS.values()) >= 20
