"""Derives a cell's figures and a bundle's headlines again from raw samples.

Clocks are kept in microseconds, so that what is derived from them may differ from what was measured by as much.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from upright.evidence.share.statement import ClaimedMetric, Headline
from upright.facts.records.benchmark import Benchmark, Cell, Samples, Spread
from upright.facts.records.evidence import Evidence, Verdict
from upright.facts.records.spreads import spread_of
from upright.proof.benchmark.comparison import shape_words
from upright.proof.benchmark.rows import METRIC, ShapeRow, rows

CLAIMED: tuple[ClaimedMetric, ...] = ("output", "total", "user", "ttft", "ttft_p99", "tpot", "latency")
"""What follows from samples alone: nothing else is claimed."""
_CLOCK_SECONDS = 2.5e-6
_SHARE = 1e-6


class Derived(NamedTuple):
    """One figure of a cell, said and derived."""

    name: str
    claimed: float | None
    derived: float | None
    holds: bool


def headlines_of(benchmarks: Iterable[Benchmark]) -> tuple[Headline, ...]:
    """Means over the repeats that nothing is wrong with."""
    return tuple(
        headline
        for benchmark in benchmarks
        for row in rows(benchmark.cells)
        if not row.marked
        for headline in _row_headlines(benchmark.run, row)
    )


def ladder_of(evidence: Evidence | None) -> dict[str, Verdict]:
    return {rung: evidence.rung_verdict(rung) for rung in evidence.rungs} if evidence else {}


def derived_figures(cell: Cell, samples: Samples) -> Iterator[Derived]:
    """Every figure of the cell that follows from its samples."""
    prompts, outputs = samples.prompt_tokens, samples.output_tokens
    ttft = _seconds(samples.first_us, samples.sent_us)
    latency = _seconds(samples.ended_us, samples.sent_us)
    per_token = [
        (last - first) / 1e6 / (tokens - 1)
        for first, last, tokens, pieces in zip(samples.first_us, samples.last_us, outputs, samples.pieces, strict=True)
        if tokens > 1 and pieces > 1
    ]
    per_second = 1 / cell.seconds if cell.seconds else 0.0
    yield _figure("succeeded", cell.succeeded, len(outputs), 0)
    yield _rate("output_tokens_per_second", cell.output_tokens_per_second, sum(outputs) * per_second, cell)
    yield _rate("total_tokens_per_second", cell.total_tokens_per_second, sum((*outputs, *prompts)) * per_second, cell)
    yield _rate("requests_per_second", cell.requests_per_second, len(outputs) * per_second, cell)
    for name, spread, measured in (
        ("prompt_tokens", cell.prompt_tokens, prompts),
        ("output_tokens", cell.output_tokens, outputs),
        ("ttft_seconds", cell.ttft_seconds, ttft),
        ("tpot_seconds", cell.tpot_seconds, per_token),
        ("latency_seconds", cell.latency_seconds, latency),
    ):
        yield from _spread(name, spread, measured)


def _row_headlines(run: str, row: ShapeRow) -> Iterator[Headline]:
    for metric in CLAIMED:
        if (mean := row.mean(metric)) is not None:
            yield Headline(
                run=run, shape=shape_words(row.shape), metric=metric, unit=METRIC[metric].unit,
                figure=mean.value, repeats=mean.count,
            )  # fmt: skip


def _seconds(ends: Sequence[int], begins: Sequence[int]) -> list[float]:
    return [(end - begin) / 1e6 for end, begin in zip(ends, begins, strict=True)]


def _spread(name: str, claimed: Spread | None, measured: Sequence[float]) -> Iterator[Derived]:
    derived = spread_of(measured)
    if claimed is None or derived is None:
        holds = claimed is None and derived is None
        yield Derived(name, claimed.mean if claimed else None, derived.mean if derived else None, holds)
        return
    tolerance = _CLOCK_SECONDS if name.endswith("_seconds") else 0.0
    for part in Spread.model_fields:
        yield _figure(f"{name} {part}", getattr(claimed, part), getattr(derived, part), tolerance)


def _rate(name: str, claimed: float, derived: float, cell: Cell) -> Derived:
    """The cell's seconds are rounded to a microsecond, whatever they were."""
    return _figure(name, claimed, derived, derived * 1e-6 / cell.seconds if cell.seconds else 0.0)


def _figure(name: str, claimed: float, derived: float, tolerance: float) -> Derived:
    return Derived(name, claimed, derived, abs(claimed - derived) <= tolerance + _SHARE * abs(derived))
