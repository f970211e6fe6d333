"""Planned vs actual memory, term by term on each device: the plan against what the engine reports.

The engine's words are not the plan's: one figure of a log covers several lines of a ledger, and what an engine takes
beside weights, cache and graphs follows from what it was given and what it left. What was not read stays unknown.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from upright.engines.memory_report import HOST, MemoryReport, MemoryTerm, Reading
from upright.facts.records.base import Figure, unknown
from upright.facts.records.plan import LedgerLine, Plan
from upright.facts.records.residuals import PoolResidual, Residual, Residuals
from upright.planning.placement.gpu_memory_utilization import gpu_share, graphs_counted

# What an engine calls its weights is everything that was loaded; copies made while loading too.
WEIGHTS = (
    "weights",
    "experts",
    "replicated_weights",
    "absorbed_weights",
    "scales",
    "padded_weights",
    "unclassed_weights",
    "tables",
)
# Experts that are copied to a GPU for prefill lie in llama.cpp's compute buffer.
SCRATCH = ("compute", "upload")
GRAPHS = ("graphs", "graphs_outside")
_NOT_SAID = unknown("the engine does not say")


@dataclass(frozen=True)
class StartReading:
    """Everything that was read of one start."""

    report: MemoryReport
    """The log's."""
    pool_tokens: Figure = _NOT_SAID
    """Tokens of cache by the engine's metrics or properties, which are better than its log."""
    pool_bytes: Figure = _NOT_SAID
    """The same in bytes, where the metrics say it."""
    process_bytes: Figure = _NOT_SAID
    """System RAM of the engine's processes beside its buffers."""
    process_low_bytes: int | None = None
    """The least that it can be: buffers that were never touched do not count as resident."""
    unread: tuple[str, ...] = ()
    """What could not be read, and why."""


def planned_vs_actual(plan: Plan, seen: StartReading, *, deployment: str, at: str, box_identity: str) -> Residuals:
    lines = tuple(line for device in _devices(plan, seen.report) for line in _device_lines(plan, seen, device))
    return Residuals(
        made_from=(plan.reference,),
        deployment=deployment,
        at=at,
        box=plan.box,
        box_identity=box_identity,
        engine=plan.engine,
        engine_version=plan.engine_version,
        model=plan.model,
        parallel=plan.parallel,
        draft=plan.goal.draft,
        context_tokens=plan.context_tokens,
        users=plan.goal.users,
        ubatch_tokens=plan.ubatch_tokens,
        lines=lines,
        pool=_pool(plan, seen),
        unread=seen.unread,
    )


def _devices(plan: Plan, report: MemoryReport) -> tuple[str, ...]:
    planned = [line.device for line in plan.ledger]
    return tuple(dict.fromkeys([*sorted(set(planned), key=planned.index), *report.devices()]))


def _device_lines(plan: Plan, seen: StartReading, device: str) -> Iterator[Residual]:
    report = seen.report
    yield from _line(plan, device, "weights", WEIGHTS, report.of("weights", device))
    yield from _cache(plan, seen, device)
    yield from _line(plan, device, "compute", SCRATCH, report.of("compute", device))
    what: MemoryTerm = "graphs_reserved" if graphs_counted(plan.engine, plan.engine_version) else "graphs"
    yield from _line(plan, device, "graphs", GRAPHS, report.of(what, device) or report.of("graphs", device))
    yield from _line(plan, device, "output", ("output",), report.of("output", device))
    if device != HOST:
        yield from _line(plan, device, "runtime", ("runtime", "draft"), _runtime(plan, report, device))
    elif _sum(plan, HOST, ("process",)):
        yield _process(plan, seen)


def _line(plan: Plan, device: str, term: str, of: tuple[str, ...], read: Reading | None) -> Iterator[Residual]:
    lines = _sum(plan, device, of)
    if not lines and read is None:
        return
    yield Residual(
        device=device,
        term=term,
        of=tuple(line.term for line in lines),
        predicted_bytes=_predicted(lines),
        predicted_low_bytes=sum(line.low_bytes for line in lines) if lines else None,
        predicted_high_bytes=sum(line.high_bytes for line in lines) if lines else None,
        measured_bytes=_figure(read),
        measured_low_bytes=int(read.value - read.rounding) if read else None,
        measured_high_bytes=int(read.value + read.rounding) if read else None,
    )


def _cache(plan: Plan, seen: StartReading, device: str) -> Iterator[Residual]:
    """Engines that take a fraction fill it: there the pool is compared, not the part that the goal needs."""
    read = seen.report.of("kv_cache", device)
    if seen.pool_bytes.value is not None and _sum(plan, device, ("kv_cache",)):
        read = Reading("kv_cache", float(seen.pool_bytes.value), seen.pool_bytes.source or "", device)
    if plan.memory_fraction is None or device == HOST:
        yield from _line(plan, device, "kv_cache", ("kv_cache",), read)
        return
    fixed = [
        line
        for line in plan.ledger
        if line.device == device and line.term not in ("kv_cache", "state", "graphs_outside")
    ]
    offered = sum(budget.capacity_bytes for budget in plan.budgets if budget.device == device)
    left = offered - sum(line.bytes for line in fixed)
    yield Residual(
        device=device,
        term="kv_cache",
        of=("kv_cache",),
        predicted_bytes=Figure(value=left, basis="derived", source="the fraction less every other term"),
        predicted_low_bytes=offered - sum(line.high_bytes for line in fixed),
        predicted_high_bytes=offered - sum(line.low_bytes for line in fixed),
        measured_bytes=_figure(read),
        measured_low_bytes=int(read.value - read.rounding) if read else None,
        measured_high_bytes=int(read.value + read.rounding) if read else None,
    )


def _runtime(plan: Plan, report: MemoryReport, device: str) -> Reading | None:
    """What is gone on a GPU beside weights, cache and graphs."""
    if (reading := report.of("runtime", device)) is not None:
        return reading
    share = gpu_share(plan.engine)
    return share.runtime(plan, report, device) if share else None


def _process(plan: Plan, seen: StartReading) -> Residual:
    lines = _sum(plan, HOST, ("process",))
    measured = seen.process_bytes
    high = int(measured.value) if measured.value is not None else None
    return Residual(
        device=HOST,
        term="process",
        of=("process",),
        predicted_bytes=_predicted(lines),
        predicted_low_bytes=sum(line.low_bytes for line in lines),
        predicted_high_bytes=sum(line.high_bytes for line in lines),
        measured_bytes=measured,
        measured_low_bytes=seen.process_low_bytes if seen.process_low_bytes is not None else high,
        measured_high_bytes=high,
    )


def _pool(plan: Plan, seen: StartReading) -> PoolResidual:
    fills = plan.memory_fraction is not None
    kv = plan.kv
    pool = (kv.low_tokens, kv.capacity_tokens, kv.high_tokens) if fills else (kv.planned_tokens,) * 3
    low, best, high = (tokens // plan.parallel.data for tokens in pool)  # an engine tells of each replica
    measured = seen.pool_tokens
    read = seen.report.of("kv_tokens") or (None if fills else seen.report.of("context_tokens"))
    if measured.value is None and read is not None:
        measured = Figure(value=int(read.value), basis="measured", source=read.line)
    return PoolResidual(
        predicted_tokens=Figure(value=best, basis="derived", source=kv.formula),
        predicted_low_tokens=low,
        predicted_high_tokens=high,
        measured_tokens=measured,
    )


def _sum(plan: Plan, device: str, terms: tuple[str, ...]) -> list[LedgerLine]:
    return [line for line in plan.ledger if line.device == device and line.term in terms]


def _predicted(lines: list[LedgerLine]) -> Figure:
    if not lines:
        return unknown("the plan has no such term")
    bases = {line.basis for line in lines}
    basis = bases.pop() if len(bases) == 1 else "derived"
    return Figure(value=sum(line.bytes for line in lines), basis=basis, source="; ".join(line.why for line in lines))


def _figure(read: Reading | None) -> Figure:
    return _NOT_SAID if read is None else Figure(value=int(read.value), basis="measured", source=read.line)
