"""Cells of benchmarks -> how the box serves: what its first tokens and its steps were measured to take."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from upright.errors import UprightError
from upright.records.benchmark import Cell
from upright.sizing.service import Service

_ALONE = 1.2
"""Requests in flight up to which a first token waited for nobody."""
_APART = 1.5
"""Lengths that differ by this factor tell what a token costs."""


@dataclass(frozen=True)
class Measured:
    """A curve by measurement."""

    service: Service
    why: str
    notes: tuple[str, ...]


def measured_service(
    cells: Sequence[Cell], *, pool_tokens: int | None, streams: int | None, step_prompt_tokens: int
) -> Measured:
    """What is None is taken from the cells themselves: the pool that the engine reported, the most streams at once."""
    used = [cell for cell in cells if _usable(cell)]
    alone = [cell for cell in used if cell.in_flight_mean <= _ALONE]
    if not alone:
        raise UprightError(
            "no cell has one request at a time, so nobody knows what a first token takes when nothing waits",
            hint="upright bench --workload knee measures from one to many",
        )
    notes: list[str] = []
    start, token = _first_token(alone, notes)
    steps, cached = _steps(used, start, token, notes)
    engine_pool = [cell.engine.kv_pool_tokens for cell in used if cell.engine and cell.engine.kv_pool_tokens]
    pool = pool_tokens or (min(engine_pool) if engine_pool else None)
    if pool is None:
        raise UprightError("how many tokens the cache holds is not in the evidence", hint="say it: --pool-tokens N")
    most = max(cell.in_flight_peak for cell in used)
    if streams is None or streams > most:
        notes.append(f"measured with up to {most} streams at once: beyond that the last line goes on")
    step = min(start, steps[0][1])
    service = Service(
        step_seconds=steps,
        prompt_token_seconds=token,
        step_prompt_tokens=step_prompt_tokens,
        pool_tokens=pool,
        streams=streams or most,
        cached_token_seconds=cached,
        prompt_step_seconds=step,
        answer_seconds=start - step,
    )
    runs = sorted({cell.run for cell in used})
    return Measured(service, f"measured: {len(used)} cells of {', '.join(runs)}", tuple(notes))


def _usable(cell: Cell) -> bool:
    good = cell.complete and not cell.marks and not cell.failed and cell.shape.arrival == "closed"
    return good and cell.ttft_seconds is not None and cell.tpot_seconds is not None and cell.prompt_tokens is not None


def _fresh(cell: Cell) -> float:
    """Prompt tokens of a request that were not in the cache."""
    assert cell.prompt_tokens is not None
    return max(1.0, cell.prompt_tokens.mean - (cell.cached_tokens or 0) / max(1, cell.succeeded))


def _first_token(alone: Sequence[Cell], notes: list[str]) -> tuple[float, float]:
    """Seconds before any prompt token, and seconds of each."""
    points = [(_fresh(cell), cell.ttft_seconds.mean) for cell in alone if cell.ttft_seconds]
    (low, _), (high, _) = min(points), max(points)
    if high / low < _APART:
        notes.append("one length of prompt was measured: its whole time is taken for reading")
        return 0.0, fmean(seconds / tokens for tokens, seconds in points)
    middle_x, middle_y = fmean(x for x, _ in points), fmean(y for _, y in points)
    slope = sum((x - middle_x) * (y - middle_y) for x, y in points) / sum((x - middle_x) ** 2 for x, _ in points)
    slope = max(slope, 0.0)
    return max(0.0, middle_y - slope * middle_x), slope


@dataclass(frozen=True)
class _Point:
    streams: float
    context: float
    seconds: float


def _steps(
    used: Sequence[Cell], start: float, token: float, notes: list[str]
) -> tuple[tuple[tuple[float, float], ...], float]:
    points = [_point(cell, start, token) for cell in used]
    by_streams: defaultdict[int, list[_Point]] = defaultdict(list)
    for point in points:
        by_streams[round(point.streams)].append(point)
    slopes = []
    for group in by_streams.values():
        short, long = min(group, key=lambda each: each.context), max(group, key=lambda each: each.context)
        if long.context > _APART * short.context:
            streams = fmean((short.streams, long.streams))
            slopes.append((long.seconds - short.seconds) / ((long.context - short.context) * streams))
    if not slopes:
        notes.append("one length of context was measured: longer ones are taken to decode as fast")
    cached = max(0.0, fmean(slopes)) if slopes else 0.0
    found: list[tuple[float, float]] = []
    for _, group in sorted(by_streams.items()):
        seconds = fmean(point.seconds - cached * point.streams * point.context for point in group)
        streams = fmean(point.streams for point in group)
        least = found[-1][1] if found else 1e-9  # more streams never take less time
        found.append((streams, max(seconds, least)))
    return tuple(found), cached


def _point(cell: Cell, start: float, token: float) -> _Point:
    """A step of this cell, without the prompts of the others that were read while one answer was written."""
    assert cell.tpot_seconds is not None
    assert cell.ttft_seconds is not None
    assert cell.prompt_tokens is not None
    written = cell.output_tokens.mean if cell.output_tokens else float(cell.shape.output_tokens)
    others = max(0.0, cell.in_flight_mean - 1)
    writing = cell.tpot_seconds.mean * written
    share = writing / (writing + cell.ttft_seconds.mean)
    prompts = others / max(1.0, written) * (start + token * _fresh(cell))
    return _Point(
        streams=1 + others * share,
        context=cell.prompt_tokens.mean + written / 2,
        seconds=max(cell.tpot_seconds.mean - prompts, cell.tpot_seconds.mean / 10),
    )
