"""Box + Model + Goal -> Plan for the llama.cpp family: whole layers on devices, experts where there is room.

Without a GPU everything lives in main memory.
"""

from __future__ import annotations

from dataclasses import dataclass

from upright.planning.buffers import Buffer, compute_buffer, padded_context
from upright.planning.kvcache import CacheShape, cache_shape
from upright.records.box import Box
from upright.records.model import Model
from upright.records.plan import DeviceBudget, Goal, KvCache, LedgerLine, Objection, Plan
from upright.units import MIB, memory, tokens

UBATCH_TOKENS = 512
# An idle llama-server b11669 beside its buffers took 20 MiB with a vocabulary of 640; a large one adds to it.
_PROCESS = (20 * MIB, 100 * MIB, 256 * MIB)


@dataclass(frozen=True)
class _Case:
    """Everything that decides the bytes."""

    box: Box
    model: Model
    goal: Goal
    context_tokens: int
    shape: CacheShape
    dtype: str

    @property
    def total_tokens(self) -> int:
        return padded_context(self.context_tokens) * self.goal.users


def plan_in_memory(box: Box, model: Model, goal: Goal, *, engine: str, context_tokens: int) -> Plan:
    """The plan on a machine without a GPU."""
    dtype = goal.kv_dtype or "f16"
    shape = cache_shape(model.architecture, dtype, window_slack_tokens=UBATCH_TOKENS)
    case = _Case(box, model, goal, context_tokens, shape, dtype)
    budget = _host_budget(box)
    fixed = (_weights(model), _scratch(case), _process())
    cache = _cache(case)
    ledger = (*fixed, cache)
    free = budget.capacity_bytes - sum(line.high_bytes for line in fixed)
    capacity = _tokens_within(free, shape, goal.users)
    limit = model.architecture.context_limit_tokens
    return Plan(
        made_from=(box.reference, model.reference),
        engine=engine,
        engine_version=goal.engine_version or _installed(box, engine),
        goal=goal,
        model=model.name,
        box=box.name,
        context_tokens=context_tokens,
        ubatch_tokens=UBATCH_TOKENS,
        budgets=(budget,),
        ledger=ledger,
        kv=KvCache(
            dtype=dtype,
            bytes_per_token=shape.bytes_per_token,
            bytes_per_sequence=shape.bounded_bytes,
            capacity_tokens=capacity,
            planned_tokens=case.total_tokens,
            formula=shape.formula,
        ),
        largest_context_tokens=min(capacity, limit or capacity),
        users_at_context=capacity // padded_context(context_tokens),
        objections=_objections(case, budget, ledger, capacity),
    )


def _host_budget(box: Box) -> DeviceBudget:
    known = box.memory_available_bytes if box.memory_available_bytes.value is not None else box.memory_bytes
    return DeviceBudget(
        device="host",
        capacity_bytes=int(known.value or 0),
        basis=known.basis or "assumed",
        why=f"memory a new process can have ({known.source or 'unknown'})",
    )


def _weights(model: Model) -> LedgerLine:
    return _exact("weights", model.tensor_bytes, f"{len(model.files)} files, every tensor as stored", basis=model.basis)


def _cache(case: _Case) -> LedgerLine:
    total = case.goal.users * case.shape.sequence_bytes(padded_context(case.context_tokens))
    why = f"{case.goal.users} x {tokens(case.context_tokens)} tokens x {case.shape.bytes_per_token:,} B ({case.dtype})"
    return _exact("kv_cache", total, why)


def _scratch(case: _Case) -> LedgerLine:
    buffer: Buffer = compute_buffer(
        case.model.architecture, ubatch_tokens=UBATCH_TOKENS, context_tokens=case.context_tokens
    )
    return LedgerLine(
        device="host",
        term="compute",
        bytes=buffer.bytes,
        low_bytes=buffer.low_bytes,
        high_bytes=buffer.high_bytes,
        basis="derived",
        why=buffer.why,
    )


def _process() -> LedgerLine:
    low, best, high = _PROCESS
    return LedgerLine(
        device="host",
        term="process",
        bytes=best,
        low_bytes=low,
        high_bytes=high,
        basis="measured",
        why="an idle llama-server beside its buffers: 20 MiB seen (b11669, small vocabulary)",
    )


def _exact(term: str, count: int, why: str, *, basis: str = "derived") -> LedgerLine:
    return LedgerLine.model_validate(
        {
            "device": "host",
            "term": term,
            "bytes": count,
            "low_bytes": count,
            "high_bytes": count,
            "basis": basis,
            "why": why,
        }
    )


def _tokens_within(free_bytes: int, shape: CacheShape, users: int) -> int:
    left = free_bytes - users * shape.bounded_bytes
    if left <= 0:
        return 0
    if shape.bytes_per_token == 0:
        return 2**31 - 1
    return left // shape.bytes_per_token


def _objections(
    case: _Case, budget: DeviceBudget, ledger: tuple[LedgerLine, ...], capacity: int
) -> tuple[Objection, ...]:
    limit = case.model.architecture.context_limit_tokens
    found = []
    if limit is not None and case.context_tokens > limit:
        found.append(
            Objection(
                code="context-too-long",
                message=f"{case.model.name} was made for {tokens(limit)} tokens, not {tokens(case.context_tokens)}",
                remedy=f"--context {limit}",
            )
        )
    short = sum(line.high_bytes for line in ledger) - budget.capacity_bytes
    if short > 0:
        largest = capacity // case.goal.users // 256 * 256
        found.append(
            Objection(
                code="does-not-fit",
                message=f"{memory(short)} too much for {memory(budget.capacity_bytes)} of main memory",
                device="host",
                short_bytes=short,
                remedy=f"--context {largest}" if largest else "a smaller quant, or a machine with more memory",
            )
        )
    return tuple(found)


def _installed(box: Box, engine: str) -> str | None:
    return next((found.version for found in box.engines if found.engine == engine), None)
