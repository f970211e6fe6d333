"""Measures one cell: warm-up, load, the engine's own metrics, guards on sampled answers."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib import metadata

from upright.base.errors import UprightError
from upright.facts.records.benchmark import Cell, EngineView, Machine, Shape
from upright.facts.records.spreads import spread_of
from upright.facts.records.trace import AgentTrace
from upright.proof.benchmark.cell_marks import marks, notes
from upright.proof.benchmark.host_interference import HostCounterReader, disturbances
from upright.proof.benchmark.load import Arrivals, GeneratorStats, LoadTarget, StreamTally, run
from upright.proof.benchmark.metrics_sampler import Sampler
from upright.proof.benchmark.prompts import Prompts, TokenGauge
from upright.proof.benchmark.slo import RequestSlo as RequestSlo
from upright.proof.benchmark.trace_replay import TraceReplay, replay_notes
from upright.serving.endpoint.client import Answer
from upright.serving.endpoint.guards import complaints

OnTick = Callable[[StreamTally, int], None]
_WARM_TOKENS = 64
_WARM_OUTPUT = 8


class SubjectFailedError(UprightError):
    """What `Subject.enter` raises if its subject cannot be measured; the others can."""


@dataclass(frozen=True)
class BenchSubject:
    """An endpoint that is measured, and all that is known of it."""

    target: LoadTarget
    gauge: TokenGauge
    metrics_path: str | None = None
    recipe: str | None = None
    """Digest of the recipe, if there is one."""
    letter: str = "a"
    enter: Callable[[], None] | None = None
    """Makes it the one that runs, where only one can; None if it always does."""


@dataclass(frozen=True)
class CellPlace:
    """Where a cell belongs."""

    run: str
    workload: str
    repeat: int
    seed: int
    taken_up: str = ""
    """When the run was taken up again, if it was."""
    box: int = 1
    """Which time box, where those before it cut requests."""


def measure(
    subject: BenchSubject, shape: Shape, place: CellPlace, *,
    seconds: float | None = None, patience_seconds: float = 300, promise: RequestSlo | None = None,
    on_tick: OnTick | None = None, trace: AgentTrace | None = None,
) -> Cell:  # fmt: skip
    """One cell, with its marks. `seconds` is the time box; an error of the server is in the cell, never raised."""
    seed = prompt_seed(shape, place)
    replay = TraceReplay(subject.target, trace, shape.concurrency, subject.gauge, seed) if trace else None
    source = replay or Prompts(subject.target, shape, subject.gauge, seed)
    how = Arrivals(
        concurrency=min(shape.concurrency, shape.requests),
        requests_per_second=shape.requests_per_second,
        ramp_seconds=shape.ramp_seconds,
        patience_seconds=patience_seconds,
        seed=place.seed + place.repeat,
    )
    load = _boxed(how, seconds)
    sampler = Sampler(subject.target, subject.metrics_path)
    at = datetime.now(UTC).isoformat(timespec="milliseconds")
    every = max(1, shape.requests * shape.turns // 32)
    surveyor, began = HostCounterReader(subject.target.host, subject.target.port), time.monotonic()
    before = surveyor.look()
    tally, flight = run(
        subject.target, source, load, on_tick=on_tick, beside=sampler.start, sample_every=every,
        on_landing=replay.landed if replay else None,
    )  # fmt: skip
    cell = _cell(subject, shape, place, at, tally, flight, sampler.view(tally), promise)
    paced = replay is not None
    disturbed = disturbances(before, surveyor.look(), time.monotonic() - began, os.cpu_count() or 1)
    told = replay_notes(replay.figures, cell) if replay else ()
    remarks = (*told, *notes(cell, paced=paced), *disturbed)
    return Cell.model_validate({**dict(cell), "marks": marks(cell, paced=paced), "notes": remarks})


def warm_up(subject: BenchSubject, shape: Shape, *, seconds: float | None = None) -> GeneratorStats:
    """Not measured: one request of the full length, then as many short ones at once as the cell will have."""
    one = shape.model_copy(update={"concurrency": 1, "requests": 1, "turns": 1, "output_tokens": _WARM_OUTPUT})
    short = shape.model_copy(
        update={
            "requests": shape.concurrency, "turns": 1, "output_tokens": _WARM_OUTPUT,
            "prompt_tokens": min(_WARM_TOKENS, shape.prompt_tokens), "shared_tokens": 0,
        }
    )  # fmt: skip
    flight = GeneratorStats()
    for step, name in ((one, "long"), (short, "wide")):
        source = Prompts(subject.target, step, subject.gauge, f"warm {name} {time.time_ns()}")
        load = _boxed(Arrivals(step.concurrency, ramp_seconds=shape.ramp_seconds), seconds)
        _, flight = run(subject.target, source, load)
    return flight


def prompt_seed(shape: Shape, place: CellPlace) -> str:
    """Another for every cell and every box of it: the engine's cache holds prompts that it has seen."""
    return f"{place.seed} {place.run} {place.taken_up} {place.repeat} {place.box} {shape.model_dump_json()}"


def _boxed(load: Arrivals, seconds: float | None) -> Arrivals:
    """A time box leaves the requests that run at its end a part of it."""
    return load if seconds is None else replace(load, seconds=0.7 * seconds, grace_seconds=0.3 * seconds)


def _cell(
    subject: BenchSubject, shape: Shape, place: CellPlace, at: str,
    tally: StreamTally, flight: GeneratorStats, view: EngineView | None, promise: RequestSlo | None,
) -> Cell:  # fmt: skip
    output, prompt = sum(tally.output), sum(tally.prompt)
    seconds = tally.seconds
    per_second = 1 / seconds if seconds else 0.0
    import resource  # what only reads a cell runs where there is none

    sane, complaint_counts = _guarded(tally)
    return Cell(
        run=place.run, workload=place.workload, subject=subject.letter, recipe=subject.recipe, repeat=place.repeat,
        shape=shape, api=subject.target.api, at=at, seconds=round(seconds, 6),
        sent=tally.sent, succeeded=tally.succeeded, unfinished=tally.unfinished,
        errors=dict(tally.errors), error_samples=tally.error_samples, finish_reasons=dict(tally.finish_reasons),
        in_flight_peak=flight.in_flight_peak, in_flight_mean=round(flight.in_flight_mean, 3),
        prompt_tokens=spread_of(tally.prompt), output_tokens=spread_of(tally.output), cached_tokens=tally.cached,
        template_tokens=subject.gauge.base_tokens,
        ttft_seconds=spread_of(tally.ttft), tpot_seconds=spread_of(tally.tpot),
        latency_seconds=spread_of(tally.latency),
        itl_seconds=tally.gaps.spread(), late_seconds=spread_of(tally.late),
        output_tokens_per_second=output * per_second, total_tokens_per_second=(output + prompt) * per_second,
        requests_per_second=tally.succeeded * per_second,
        peak_tokens_per_second=tally.peak_tokens_per_second(),
        good_percent=_good_percent(tally, promise),
        engine=view, complaints=complaint_counts, sampled=sane, complete=not flight.gone, samples=tally.clocked(),
        machine=Machine(
            program="upright", version=metadata.version("upright"), loop="asyncio",
            cpu_seconds=round(flight.cpu_seconds, 4), lag_seconds=round(flight.lag_seconds, 6),
            memory_bytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        ),
    )  # fmt: skip


def _guarded(tally: StreamTally) -> tuple[int, dict[str, int]]:
    """How many answers were looked at, and how many each guard spoke of."""
    guard_counts: Counter[str] = Counter()
    for text, reason, tokens in tally.texts:
        answer = Answer.of_text(text, reason, 1, tokens)  # counted already, or it would not be a success
        guard_counts.update({complaint.guard for complaint in complaints(answer)})
    return len(tally.texts), dict(guard_counts)


def _good_percent(tally: StreamTally, promise: RequestSlo | None) -> float | None:
    """Of all that were sent: a request that failed kept no promise."""
    if promise is None or not tally.sent:
        return None
    pairs = zip(tally.ttft, tally.each, strict=True)
    kept = sum(first <= promise.ttft_seconds and tpot <= promise.tpot_seconds for first, tpot in pairs)
    return 100 * kept / tally.sent


def open_loop_shape(shape: Shape, rate: float, requests: int) -> Shape:
    """The same requests, arriving at random times."""
    return shape.model_copy(
        update={"arrival": "open", "requests_per_second": rate, "requests": requests, "ramp_seconds": 0.0}
    )
