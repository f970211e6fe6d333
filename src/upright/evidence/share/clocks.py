"""Checks of a bundle's clocks: answers before questions, more in flight than sent."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import chain, pairwise

from upright.engines.facets.log import RequestTiming
from upright.evidence.share.checks import Check, CheckMaker
from upright.facts.records.benchmark import Benchmark, Cell, Samples

_CLOCKS, _ENGINE, _COUNTS = CheckMaker("clocks"), CheckMaker("engine-clock"), CheckMaker("counts")
_SLACK_SECONDS = 0.05
"""A clock on the wall is set right now and then; more than this at once is no honest one."""
_ROUNDING_US = 2
_COUNTED = 0.95
"""Of the tokens that clients saw, an engine's counters have so many at least when they are read."""
_LATE_TOKENS = 16


def cell_clocks(cell: Cell, samples: Samples) -> str | None:
    """Why these clocks cannot be; None if they can."""
    columns = list(samples.model_dump().values())
    if len({len(column) for column in columns}) != 1 or any(number < 0 for number in chain(*columns)):
        return "its samples are not one row a request"
    times = zip(samples.sent_us, samples.first_us, samples.last_us, samples.ended_us, strict=True)
    if any(not sent <= first <= last <= ended for sent, first, last, ended in times):
        return "an answer ended before it began"
    if max(samples.ended_us, default=0) > cell.seconds * 1e6 + _ROUNDING_US:
        return "an answer ended after the cell did"
    if cell.sent != cell.succeeded + cell.failed + cell.unfinished:
        return "requests that were sent are not those that ended"
    if min(samples.output_tokens, default=1) < 1 or min(samples.pieces, default=1) < 1:
        return "an answer without a token"
    if max(samples.output_tokens, default=0) > cell.shape.output_tokens + 1:
        return "an answer has more tokens than were asked for"
    peak = _peak(samples)
    if peak > cell.in_flight_peak or (cell.shape.arrival == "closed" and peak > cell.shape.concurrency):
        return f"{peak} requests were in flight at once, and {cell.shape.concurrency} were to be"
    return None


def clocks(benchmarks: Iterable[Benchmark]) -> Iterator[Check]:
    """Every cell by itself, and one after the other."""
    count = 0
    for benchmark in benchmarks:
        for cell in benchmark.cells:
            if cell.samples is None:
                continue
            count += 1
            if (why := cell_clocks(cell, cell.samples)) is not None:
                yield _CLOCKS.broken(f"{benchmark.run}: {why}")
                return
        if (why := _overlap(benchmark)) is not None:
            yield _CLOCKS.broken(f"{benchmark.run}: {why}")
            return
    if count:
        yield _CLOCKS.holds(f"{count} cells, one after the other, no more in flight than were sent")


def counters(benchmarks: Iterable[Benchmark]) -> Iterator[Check]:
    """The engine's own counters against what clients say that they got."""
    counted = 0
    for benchmark in benchmarks:
        for cell in benchmark.cells:
            if cell.samples is None or cell.engine is None or cell.engine.output_tokens is None:
                continue
            claimed, engine = sum(cell.samples.output_tokens), cell.engine.output_tokens
            if engine < _COUNTED * claimed - _LATE_TOKENS:
                yield _COUNTS.broken(f"{benchmark.run}: {claimed:,} tokens are claimed, the engine counted {engine:,}")
                return
            counted += 1
    if counted:
        yield _COUNTS.holds(f"the engine's counters have the tokens of {counted} cells")
    else:
        yield _COUNTS.unknown("the engine's counters were not read")


def engine_clock(benchmarks: Iterable[Benchmark], timings: tuple[RequestTiming, ...]) -> Iterator[Check]:
    """No client has an answer in less time than the engine worked on it."""
    if not timings:
        yield _ENGINE.unknown("the engine's log does not time requests")
        return
    worked: defaultdict[int, list[float]] = defaultdict(list)
    for timing in timings:
        worked[timing.output_tokens].append(timing.prompt_seconds + timing.output_seconds)
    waited: defaultdict[int, list[float]] = defaultdict(list)
    for tokens, seconds in _latencies(benchmarks):
        waited[tokens].append(seconds)
    for tokens, latencies in waited.items():
        near = sorted(chain(*(worked[count] for count in (tokens - 1, tokens, tokens + 1) if count in worked)))
        if len(near) < len(latencies):
            told = f"{len(latencies)} answers of {tokens} tokens are claimed"
            yield _ENGINE.broken(f"{told}, the engine's log has {len(near)}")
            return
        least = sum(near[: len(latencies)])
        if sum(latencies) < 0.98 * least - 0.001:
            yield _ENGINE.broken(
                f"{len(latencies)} answers of {tokens} tokens took {sum(latencies):.3f} s, and the engine "
                f"worked on any so many for {least:.3f} s at least"
            )
            return
    yield _ENGINE.holds(f"{sum(map(len, waited.values()))} answers took no less than the engine worked on them")


def _latencies(benchmarks: Iterable[Benchmark]) -> Iterator[tuple[int, float]]:
    for benchmark in benchmarks:
        for cell in benchmark.cells:
            if cell.samples is not None:
                rows = zip(cell.samples.output_tokens, cell.samples.sent_us, cell.samples.ended_us, strict=True)
                yield from ((tokens, (ended - sent) / 1e6) for tokens, sent, ended in rows)


def _peak(samples: Samples) -> int:
    """Ends before begins at the same microsecond: a worker sends its next when one is done."""
    steps = sorted([*((ended, -1) for ended in samples.ended_us), *((sent, 1) for sent in samples.sent_us)])
    flying = peak = 0
    for _, step in steps:
        flying += step
        peak = max(peak, flying)
    return peak


def _overlap(benchmark: Benchmark) -> str | None:
    try:
        spans = sorted(
            (datetime.fromisoformat(cell.at).timestamp(), cell.seconds, cell.subject) for cell in benchmark.cells
        )
    except ValueError:
        return "a cell does not say when it was measured"
    for (began, seconds, _), (after, _, _) in pairwise(spans):
        if began + seconds > after + _SLACK_SECONDS:
            return f"a cell of {seconds:.2f} s was still running when the next began"
    return None
