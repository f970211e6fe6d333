"""How a box serves, from cells of its benchmarks: measured times of first tokens and steps.

Medians: what disturbs a few requests of a cell is the machine's, and no part of how the engine serves.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from upright.base.errors import UprightError
from upright.facts.records.benchmark import Cell
from upright.planning.sizing.service import Service
from upright.planning.speed.fitting import solve

_ALONE = 1.2
"""Requests in flight up to which a first token waited for nobody."""
_APART = 1.5
"""Lengths that differ by this factor tell what a token costs."""
_FEW = 0.3
"""Share of steps up to which those that carried a prompt leave the one in the middle as it is."""
_BENDS = 4
"""Lengths from which it can be told whether long prompts cost more for each token."""


@dataclass(frozen=True)
class MeasuredService:
    """A curve by measurement."""

    service: Service
    why: str
    notes: tuple[str, ...]


@dataclass(frozen=True)
class _Reading:
    """What a first token takes: seconds before any prompt token, of each, and of each for every one before it."""

    start: float
    token: float
    square: float

    def seconds(self, tokens: float) -> float:
        return self.start + self.token * tokens + self.square * tokens**2 / 2


def measured_service(
    cells: Sequence[Cell], *, pool_tokens: int | None, streams: int | None, step_prompt_tokens: int
) -> MeasuredService:
    """What is None is taken from the cells themselves: the pool that the engine reported, the most streams at once."""
    used = [cell for cell in cells if _usable(cell)]
    alone = [cell for cell in used if cell.in_flight_mean <= _ALONE]
    if not alone:
        raise UprightError(
            "no cell has one request at a time, so nobody knows what a first token takes when nothing waits",
            hint="upright bench --workload knee measures from one to many",
        )
    notes: list[str] = []
    reading = _first_token(alone, notes)
    steps, cached = _steps(used, reading, step_prompt_tokens, notes)
    engine_pool = [cell.engine.kv_pool_tokens for cell in used if cell.engine and cell.engine.kv_pool_tokens]
    pool = pool_tokens or (min(engine_pool) if engine_pool else None)
    if pool is None:
        raise UprightError("how many tokens the cache holds is not in the evidence", hint="say it: --pool-tokens N")
    most = max(cell.in_flight_peak for cell in used)
    if streams is None or streams > most:
        notes.append(f"measured with up to {most} streams at once: beyond that the last line goes on")
    step = min(reading.start, steps[0][1])
    service = Service(
        step_seconds=steps,
        prompt_token_seconds=reading.token,
        prompt_square_seconds=reading.square,
        step_prompt_tokens=step_prompt_tokens,
        pool_tokens=pool,
        streams=streams or most,
        cached_token_seconds=cached,
        prompt_step_seconds=step,
        answer_seconds=reading.start - step,
    )
    runs = sorted({cell.run for cell in used})
    return MeasuredService(service, f"measured: {len(used)} cells of {', '.join(runs)}", tuple(notes))


def _usable(cell: Cell) -> bool:
    good = cell.complete and not cell.marks and not cell.failed and cell.shape.arrival == "closed"
    return good and cell.ttft_seconds is not None and cell.tpot_seconds is not None and cell.prompt_tokens is not None


def _fresh(cell: Cell) -> float:
    """Prompt tokens of a request that were not in the cache."""
    assert cell.prompt_tokens is not None
    return max(1.0, cell.prompt_tokens.mean - (cell.cached_tokens or 0) / max(1, cell.succeeded))


def _first_token(alone: Sequence[Cell], notes: list[str]) -> _Reading:
    points = [(_fresh(cell), cell.ttft_seconds.p50) for cell in alone if cell.ttft_seconds]
    lengths = sorted({round(tokens) for tokens, _ in points})
    if lengths[-1] / lengths[0] < _APART:
        notes.append("one length of prompt was measured: its whole time is taken for reading")
        return _Reading(0.0, fmean(seconds / tokens for tokens, seconds in points), 0.0)
    # The first of these that has no negative part: no time is less than nothing.
    shapes = [(1, 1, 1), (0, 1, 1)] if len(lengths) >= _BENDS else []
    for shape in (*shapes, (1, 1, 0), (0, 1, 0)):
        rows = [[part for part, there in zip((1.0, x, x * x / 2), shape, strict=True) if there] for x, _ in points]
        coefficients = iter(_least_squares(rows, [seconds for _, seconds in points]))
        parts = [next(coefficients) if there else 0.0 for there in shape]
        if min(parts) >= 0:
            break
    return _Reading(*parts)


@dataclass(frozen=True)
class _Point:
    streams: float
    context: float
    seconds: float


def _steps(
    used: Sequence[Cell], reading: _Reading, step_prompt_tokens: int, notes: list[str]
) -> tuple[tuple[tuple[float, float], ...], float]:
    points = [_point(cell, reading, step_prompt_tokens) for cell in used]
    by_streams: defaultdict[int, list[_Point]] = defaultdict(list)
    for point in points:
        by_streams[round(point.streams)].append(point)
    slopes = []
    for group in by_streams.values():
        short, long = (
            min(group, key=lambda measured_point: measured_point.context),
            max(group, key=lambda measured_point: measured_point.context),
        )
        if long.context > _APART * short.context:
            streams = fmean((short.streams, long.streams))
            slopes.append((long.seconds - short.seconds) / ((long.context - short.context) * streams))
    if not slopes:
        notes.append("one length of context was measured: longer ones are taken to decode as fast")
    cached = max(0.0, fmean(slopes)) if slopes else 0.0
    step_seconds: list[tuple[float, float]] = []
    for _, group in sorted(by_streams.items()):
        seconds = fmean(point.seconds - cached * point.streams * point.context for point in group)
        streams = fmean(point.streams for point in group)
        least = step_seconds[-1][1] if step_seconds else 1e-9  # more streams never take less time
        step_seconds.append((streams, max(seconds, least)))
    return tuple(step_seconds), cached


def _point(cell: Cell, reading: _Reading, step_prompt_tokens: int) -> _Point:
    """A step of this cell that carries no prompt, though others' prompts were read while one answer was written.

    Where few steps carried one, the gap in the middle had none, and everybody in it. Else what they took is taken off
    the mean.
    """
    assert cell.tpot_seconds is not None
    assert cell.ttft_seconds is not None
    assert cell.prompt_tokens is not None
    written = cell.output_tokens.mean if cell.output_tokens else float(cell.shape.output_tokens)
    context, gaps, fresh = cell.prompt_tokens.mean + written / 2, max(1.0, written - 1), _fresh(cell)
    others = max(0.0, cell.in_flight_mean - 1)
    if cell.itl_seconds is not None and others * math.ceil(fresh / step_prompt_tokens) < _FEW * gaps:
        tokens_a_piece = gaps * cell.succeeded / cell.itl_seconds.count  # more than one with speculative decoding
        return _Point(1 + others, context, cell.itl_seconds.p50 / max(1.0, tokens_a_piece))
    mean = cell.tpot_seconds.mean
    writing = mean * written
    prompts = others * writing / (writing + cell.ttft_seconds.mean)
    read = reading.seconds(fresh) - reading.start
    return _Point(1 + prompts, context, max(mean - prompts * read / gaps, mean / 10))


def _least_squares(rows: Sequence[Sequence[float]], right: Sequence[float]) -> list[float]:
    """Relative errors count: a short prompt's milliseconds as much as a long one's seconds."""
    weighed = [[term / target for term in row] for row, target in zip(rows, right, strict=True)]
    width = range(len(rows[0]))
    matrix = [[sum(row[i] * row[j] for row in weighed) for j in width] for i in width]
    return solve(matrix, [sum(row[i] for row in weighed) for i in width])
