"""Box + Model + Goal -> Plan for vLLM's CPU build: one rank in main memory.

The CPU build is told how large its cache is (`--kv-cache-memory-bytes`), so the pool is exact: whole blocks of tokens.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from upright.planning.answer import exact, finish, rounded_down
from upright.planning.devices import HOST, UNKNOWN_HOST_BYTES, host_bytes
from upright.planning.kvcache import CacheShape, cache_shape
from upright.planning.overhead import line, overheads
from upright.planning.weights import rank_weights
from upright.records.box import Box
from upright.records.model import Model
from upright.records.plan import DeviceBudget, Goal, KvCache, LedgerLine, Objection, Plan
from upright.units import memory, tokens

if TYPE_CHECKING:
    from upright.planning.learned import Lessons

# vLLM's own block on a CPU; the plain MLA kernel takes 16, and a pool of whole 128s is whole in those too
# (vllm/platforms/cpu.py at 0.32.0).
BLOCK_TOKENS = 128
# Guard: block 0 is never given to a request (vllm/v1/core/block_pool.py, null_block).
NULL_BLOCKS = 1


@dataclass(frozen=True)
class MainMemoryCase:
    """Everything that decides the bytes."""

    box: Box
    model: Model
    goal: Goal
    version: str | None
    context_tokens: int
    dtype: str
    made_from: tuple[str, ...]
    lessons: Lessons | None = None


def is_cpu_build(engine: str, version: str | None) -> bool:
    return engine == "vllm" and (version or "").endswith("+cpu")


def plan_in_main_memory(case: MainMemoryCase) -> Plan:
    """The plan, with objections if it does not fit."""
    shape = cache_shape(case.model.architecture, case.dtype)
    fixed = _fixed(case)
    offered = host_bytes(case.box)
    budget = int(offered.value or UNKNOWN_HOST_BYTES)
    pool_tokens = BLOCK_TOKENS * (case.goal.users * -(-case.context_tokens // BLOCK_TOKENS) + NULL_BLOCKS)
    cache = exact(
        HOST,
        "kv_cache",
        pool_tokens * shape.bytes_per_token,
        f"{case.goal.users} x {tokens(case.context_tokens)} tokens in blocks of {BLOCK_TOKENS}, and vLLM's empty block",
    )
    best, low = (
        _tokens_in(budget - taken, shape) for taken in (sum(x.bytes for x in fixed), sum(x.high_bytes for x in fixed))
    )
    plan = Plan(
        made_from=case.made_from,
        engine="vllm",
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
        kv=KvCache(
            dtype=case.dtype,
            bytes_per_token=shape.bytes_per_token,
            bytes_per_sequence=shape.bounded_bytes,
            capacity_tokens=best,
            low_tokens=low,
            high_tokens=best,
            planned_tokens=pool_tokens,
            formula=shape.formula,
        ),
        objections=_objections(case, sum(x.high_bytes for x in (*fixed, cache)) - budget, low),
    )
    return finish(plan, case.model)


def _fixed(case: MainMemoryCase) -> tuple[LedgerLine, ...]:
    stage = rank_weights(case.model, tensor=1)[0]
    found = [exact(HOST, "weights", stage.bytes, "every tensor as stored", case.model.basis)]
    if stage.absorbed_bytes:
        why = "second copies of kv_b_proj that MLA backends make after loading"
        found.append(exact(HOST, "absorbed_weights", stage.absorbed_bytes, why))
    process = next(row for row in overheads("vllm", case.version) if row.term == "process")
    if case.lessons and (learned := case.lessons.learned(case.model.name, None, draft=case.goal.draft)):
        process = learned.row(process)
    return (*found, line(process, HOST))


def _tokens_in(room: int, shape: CacheShape) -> int:
    if shape.bytes_per_token == 0:
        return 0
    return max(0, rounded_down(room // shape.bytes_per_token, BLOCK_TOKENS))


def _objections(case: MainMemoryCase, short: int, low: int) -> tuple[Objection, ...]:
    found = []
    if case.goal.tensor_parallel not in (None, 1) or case.goal.pipeline_parallel not in (None, 1):
        message = "vLLM's CPU build is planned as one rank: ranks in main memory share nothing but the machine"
        found.append(Objection(code="one-rank", message=message, remedy="--tp 1"))
    if short > 0:
        largest = rounded_down(low // case.goal.users, BLOCK_TOKENS)
        found.append(
            Objection(
                code="does-not-fit",
                message=f"{memory(short)} too much for main memory",
                device=HOST,
                short_bytes=short,
                remedy=f"--context {largest}" if largest else None,
            )
        )
    return tuple(found)
