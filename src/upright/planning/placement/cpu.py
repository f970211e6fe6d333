"""Plans for builds that run on CPUs: one rank in system RAM.

Such a build is told how large its cache is, so the pool is exact: whole blocks of tokens.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from upright.base.units import format_memory, format_tokens
from upright.engines import engine_named
from upright.engines.facets.budget import CpuBuild
from upright.engines.gpu_settings import dense_mla
from upright.facts.records.box import Box
from upright.facts.records.model import Model
from upright.facts.records.plan import DeviceBudget, Goal, LedgerLine, Objection, Plan
from upright.planning.memory.cache_record import cache_record
from upright.planning.memory.kvcache import CacheShape, cache_shape
from upright.planning.memory.layouts import Storage
from upright.planning.memory.overhead import overhead_line, overheads
from upright.planning.memory.weights import rank_weights
from upright.planning.placement.devices import HOST, LEAST_HOST_BYTES, host_bytes, ram_not_specified
from upright.planning.placement.gpu_memory_utilization import gpu_share
from upright.planning.placement.plan_limits import exact_line, rounded_down, with_limits

if TYPE_CHECKING:
    from upright.planning.memory.earlier_starts import EarlierStarts


class CpuCase(NamedTuple):
    """Everything that decides the bytes."""

    box: Box
    model: Model
    goal: Goal
    engine: str
    build: CpuBuild
    version: str | None
    context_tokens: int
    dtype: str
    made_from: tuple[str, ...]
    lessons: EarlierStarts | None = None


def cpu_build(engine: str, version: str | None) -> CpuBuild | None:
    """The build, if this version is one."""
    share = gpu_share(engine)
    build = share.cpu_build if share else None
    return build if build is not None and build.is_build(version) else None


def plan_on_cpu(case: CpuCase) -> Plan:
    """The plan, with objections if it does not fit."""
    storage = Storage(case.engine, case.version)
    shape = cache_shape(case.model.architecture, case.dtype, storage=storage)
    fixed = _fixed(case)
    offered = host_bytes(case.box)
    budget = int(offered.value or LEAST_HOST_BYTES)
    block = case.build.block_tokens
    pool_tokens = block * (case.goal.users * -(-case.context_tokens // block) + case.build.unused_blocks)
    cache = exact_line(
        HOST,
        "kv_cache",
        int(pool_tokens * shape.bytes_per_token),
        f"{case.goal.users} x {format_tokens(case.context_tokens)} tokens in blocks of {block}, and "
        f"{case.build.unused_words}",
    )
    best, low = (
        _tokens_in(budget - taken, shape, block)
        for taken in (sum(x.bytes for x in fixed), sum(x.high_bytes for x in fixed))
    )
    plan = Plan(
        made_from=case.made_from,
        engine=case.engine,
        engine_version=case.version,
        goal=case.goal,
        model=case.model.name,
        box=case.box.name,
        context_tokens=case.context_tokens,
        budgets=(
            DeviceBudget(
                device=HOST,
                capacity_bytes=budget,
                basis=offered.basis or "assumed",
                why=f"memory a new process can have ({offered.source or 'unknown'})",
            ),
        ),
        ledger=(*fixed, cache),
        kv=cache_record(
            case.model,
            case.dtype,
            shape,
            storage,
            capacity_tokens=best,
            low_tokens=low,
            high_tokens=best,
            planned_tokens=pool_tokens,
        ),
        objections=_objections(case, sum(x.high_bytes for x in (*fixed, cache)) - budget, low),
    )
    return with_limits(plan, case.model)


def _fixed(case: CpuCase) -> tuple[LedgerLine, ...]:
    stage = rank_weights(case.model, tensor=1)[0]
    fixed_lines = [exact_line(HOST, "weights", stage.bytes, "every tensor as stored", case.model.basis)]
    if stage.absorbed_bytes:
        why = "second copies of kv_b_proj that MLA backends make after loading"
        fixed_lines.append(exact_line(HOST, "absorbed_weights", stage.absorbed_bytes, why))
    process = next(row for row in overheads(case.engine, case.version) if row.term == "process")
    if case.lessons and (learned := case.lessons.learned(case.model.name, None, draft=case.goal.draft)):
        process = learned.row(process)
    return (*fixed_lines, overhead_line(process, HOST))


def _tokens_in(room: int, shape: CacheShape, block: int) -> int:
    if shape.bytes_per_token == 0:
        return 0
    return max(0, rounded_down(int(room // shape.bytes_per_token), block))


def _objections(case: CpuCase, short: int, low: int) -> tuple[Objection, ...]:
    objections = []
    goal = case.goal
    if any(count not in (None, 1) for count in (goal.tensor_parallel, goal.pipeline_parallel, goal.data_parallel)):
        title = engine_named(case.engine).title
        message = f"{title}'s CPU build is planned as one rank: ranks in system RAM share nothing but the machine"
        objections.append(Objection(code="one-rank", message=message, remedy="--tp 1"))
    if dense_mla(case.model) and case.dtype not in case.build.latent_types:
        title, only = engine_named(case.engine).title, case.build.latent_types[0]
        message = f"{title}'s MLA backends for CPUs read a {only} cache, not {case.dtype}"
        objections.append(Objection(code="cache-not-supported", message=message, remedy=f"--kv-dtype {only}"))
    if short > 0 and host_bytes(case.box).value is None:
        objections.append(ram_not_specified(short + LEAST_HOST_BYTES))
    elif short > 0:
        largest = rounded_down(low // case.goal.users, case.build.block_tokens)
        objections.append(
            Objection(
                code="does-not-fit",
                message=f"{format_memory(short)} too much for system RAM",
                device=HOST,
                short_bytes=short,
                remedy=f"--context {largest}" if largest else None,
            )
        )
    return tuple(objections)
