"""Checks of a bundle against physics: bytes that do not fit, decode beyond the memory's bandwidth.

Bounds only, and from our own catalogue where it has the GPU: a bundle must not bring the ruler that it is measured by.
"""

from __future__ import annotations

from collections.abc import Iterator

from upright.base.units import GB, GIB, format_memory
from upright.engines import ENGINES, engine_named
from upright.engines.memory_report import MemoryReport, MemoryTerm
from upright.evidence.share.checks import Check, CheckMaker
from upright.facts import catalog
from upright.facts.catalog.recorded_flags import recorded_flags
from upright.facts.catalog.rows.hardware import GpuRow
from upright.facts.records.benchmark import Benchmark, Cell
from upright.facts.records.box import Box, Gpu
from upright.facts.records.model import Model
from upright.facts.records.plan import Plan
from upright.facts.records.recipe import Recipe
from upright.facts.records.residuals import Residuals
from upright.planning.memory.kvcache import cache_shape
from upright.planning.memory.weights import step_bytes

_BANDWIDTH, _POOL, _LOG, _BOX, _FLAGS = (CheckMaker(code) for code in ("bandwidth", "pool", "log", "box", "flags"))
_SOCKET_BYTES_PER_SECOND = 1.3e12
"""No socket's memory is faster: 12 channels of MRDIMM at 12,800 MT/s are 1.23 TB/s."""
_GPU_BYTES_PER_SECOND = 8e12
"""Of a GPU that the catalogue does not know, whatever is claimed for it."""
_MOST_SOCKETS, _MOST_NODES = 8, 32
"""Beyond these a box or a group is nobody's: what is claimed above them does not raise the ceiling."""
_IN_CACHES_BYTES = 1 << 30
"""Weights below this may be read from a processor's caches, which no bandwidth of memory bounds."""
_MOST_DRAFTED = 16
"""Tokens that a step of speculative decoding can yield at most."""
_ROUNDING = 1.02
_LOGGED: dict[str, MemoryTerm] = {"weights": "weights", "kv_cache": "kv_cache", "compute": "compute"}
"""Terms that are read from the log, where the engine logs them."""
_APART = 0.05
"""What an engine's metrics say of its cache differs from its log by the last block."""
_LOADED = 0.85
"""Of the weights that a step reads an engine loads nearly all; some it keeps in another type."""


def bandwidth(box: Box, model: Model, recipe: Recipe, benchmarks: tuple[Benchmark, ...]) -> Iterator[Check]:
    """Each step reads the active weights at least once, and gives a user one token."""
    read = step_bytes(model)
    experts = model.architecture.experts
    step = read.always + (experts.active * read.expert if experts else 0)
    if model.tensor_bytes < _IN_CACHES_BYTES:
        yield _BANDWIDTH.unknown(
            f"{format_memory(model.tensor_bytes)} of weights fit into caches: no bandwidth bounds them"
        )
        return
    available = _bytes_per_second(box, recipe)
    most = available / step * (_MOST_DRAFTED if recipe.draft or _speculates(recipe) else 1)
    fastest = max((_fastest(cell) for benchmark in benchmarks for cell in benchmark.cells), default=0.0)
    figures = f"{fastest:,.1f} tok/s a user, and {available / 1e12:,.2f} TB/s of memory bandwidth allow {most:,.1f}"
    yield _BANDWIDTH.holds(figures) if fastest <= most else _BANDWIDTH.broken(f"decode above the ceiling: {figures}")


def _fastest(cell: Cell) -> float:
    """Decode for one user; an answer that came in one piece took no less than all of its tokens."""
    rates = [cell.user_tokens_per_second or 0.0]
    if (kept := cell.samples) is not None:
        requests = zip(kept.sent_us, kept.ended_us, kept.output_tokens, strict=False)
        rates += [(tokens - 1) * 1e6 / max(1, ended - sent) for sent, ended, tokens in requests]
    return max(rates)


def hardware(box: Box) -> Iterator[Check]:
    """GPUs are what the catalogue says they are."""
    for gpu in {gpu.name: gpu for gpu in box.gpus}.values():
        row, capacity = _row(gpu), gpu.memory_bytes.value or 0
        if row is None or row.memory_gb.value is None or row.memory_bandwidth_gb_s.value is None:
            yield _BOX.unknown(f"the catalogue does not know memory and bandwidth of {gpu.name}: nothing bounds it")
        elif not row.unified_memory and capacity > _ROUNDING * row.memory_gb.value * GIB:
            yield _BOX.broken(
                f"{gpu.name} with {format_memory(capacity)}; the catalogue has {row.memory_gb.value:g} GB"
            )
        else:
            yield _BOX.holds(f"{gpu.name} with {format_memory(capacity)}")


def pools(box: Box, model: Model, plan: Plan, residuals: Residuals | None) -> Iterator[Check]:
    """A cache holds no more tokens than its bytes, and its bytes lie in memory."""
    per_token = plan.kv.bytes_per_token
    try:
        derived = cache_shape(model.architecture, plan.kv.dtype).bytes_per_token
    except ValueError:
        derived = None
    if per_token is not None and derived is not None and per_token < 0.5 * float(derived):
        yield _POOL.broken(f"{per_token:g} B a token are planned; the architecture needs {float(derived):g}")
        return
    tokens = residuals.pool.measured_tokens.value if residuals else None
    if tokens is None or per_token is None:
        yield _POOL.unknown("the engine did not tell how many tokens its cache holds")
        return
    needed, room = tokens * per_token, _room(box)
    figures = f"{tokens:,} tokens of {per_token:g} B are {format_memory(needed)}"
    if needed > _ROUNDING * room:
        yield _POOL.broken(f"{figures}; the box has {format_memory(room)}")
        return
    assert residuals is not None
    buffers = [line.measured_bytes.value for line in residuals.lines if line.term == "kv_cache"]
    held = sum(buffer for buffer in buffers if buffer)
    if held and needed > _ROUNDING * held + 2**20:
        yield _POOL.broken(f"{figures}; its buffers hold {format_memory(held)}")
    else:
        yield _POOL.holds(figures)


def logged(model: Model, plan: Plan, recipe: Recipe, residuals: Residuals | None, log: str) -> Iterator[Check]:
    """The engine's own lines against what was planned, and against what is said to have been read from them."""
    report = engine_named(plan.engine).log.memory(log) if plan.engine in ENGINES else MemoryReport()
    if not report.readings:
        yield _LOG.unknown("the log says nothing about memory")
        return
    weights = sum(reading.value for reading in report.readings if reading.what == "weights")
    least = _LOADED * _stepped(model)
    if weights and weights < least:
        yield _LOG.broken(
            f"it loaded {format_memory(weights)} of weights; this model has {format_memory(least)} at least"
        )
        return
    context = report.of("context_tokens")
    if context is not None and context.value < recipe.context_tokens:
        yield _LOG.broken(f"it made a context of {context.value:,.0f} tokens; the recipe has {recipe.context_tokens:,}")
        return
    yield from _readings(report, residuals)


def flags(recipe: Recipe) -> Iterator[Check]:
    """A flag that this version does not take would have ended it."""
    told = recipe.circumstances
    known = recorded_flags(recipe.engine, recipe.engine_version or "")
    if known is None or (told is not None and (told.patches or told.image)):
        yield _FLAGS.unknown(f"{recipe.engine} {recipe.engine_version or '(version unknown)'} is not recorded as such")
        return
    foreign = [setting.name for setting in recipe.arguments if setting.name.startswith("-")]
    foreign = [name for name in foreign if name.partition("=")[0] not in known]
    if foreign:
        yield _FLAGS.broken(f"{recipe.engine} {recipe.engine_version} takes no {', '.join(foreign[:3])}")
    else:
        yield _FLAGS.holds(f"{recipe.engine} {recipe.engine_version} takes every flag")


def _readings(report: MemoryReport, residuals: Residuals | None) -> Iterator[Check]:
    """Each measured term that the engine logs must come out of its log again."""
    count = 0
    for line in residuals.lines if residuals else ():
        term, measured = _LOGGED.get(line.term), line.measured_bytes.value
        if term is None or measured is None:
            continue
        reading = report.of(term, line.device)
        if reading is None:
            yield _LOG.broken(f"{line.term} on {line.device} is claimed as measured, and the log does not say it")
            return
        count += 1
        if abs(measured - reading.value) > reading.rounding + _APART * reading.value + 1:
            claimed = f"{line.term} on {line.device}: {format_memory(measured)} is claimed"
            yield _LOG.broken(f"{claimed}, the log says {format_memory(reading.value)}")
            return
    yield _LOG.holds(f"{len(report.readings)} figures of memory, {count} of them claimed as measured")


def _stepped(model: Model) -> int:
    left_out = ("embedding", "vision", "draft", "tables", "other")
    return sum(line.bytes for line in model.weights if line.group not in left_out)


def _bytes_per_second(box: Box, recipe: Recipe) -> float:
    """Of all memory that weights may be read from: an upper bound."""
    graphics = sum(_gpu_bytes_per_second(gpu) for gpu in box.gpus)
    offloads = recipe.gpus == 0 or recipe.model_path.endswith(".gguf")
    sockets, nodes = min(max(1, box.cpu.sockets or 1), _MOST_SOCKETS), min(max(1, recipe.nodes), _MOST_NODES)
    return (graphics + sockets * _SOCKET_BYTES_PER_SECOND * offloads) * nodes


def _gpu_bytes_per_second(gpu: Gpu) -> float:
    row = _row(gpu)
    if row is not None and row.memory_bandwidth_gb_s.value is not None:
        return float(row.memory_bandwidth_gb_s.value) * GB
    return float(min(gpu.memory_bandwidth_bytes_per_second.value or _GPU_BYTES_PER_SECOND, _GPU_BYTES_PER_SECOND))


def _row(gpu: Gpu) -> GpuRow | None:
    """By the driver's name for it: a row's name in a bundle is the bundle's word."""
    return catalog.find_gpu(gpu.name)


def _room(box: Box) -> float:
    return float(sum(gpu.memory_bytes.value or 0 for gpu in box.gpus) + (box.memory_bytes.value or 0))


def _speculates(recipe: Recipe) -> bool:
    return any("spec" in setting.name or "draft" in setting.name for setting in recipe.arguments)
