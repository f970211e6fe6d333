"""Cells with known figures, for what compares and draws them."""

from __future__ import annotations

from upright.facts.records.benchmark import Cell, Machine, Shape, Spread


def cell(subject: str, streams: int, repeat: int, speed: float, run: str = "r", marks: tuple[str, ...] = ()) -> Cell:
    def spread(value: float) -> Spread:
        return Spread(count=9, mean=value, low=value, p50=value, p90=value, p99=value, high=value)

    return Cell(
        run=run, workload="short", subject=subject, repeat=repeat, api="chat", at="", seconds=1, sent=1, succeeded=1,
        shape=Shape(prompt_tokens=256, output_tokens=100, concurrency=streams, requests=streams),
        output_tokens_per_second=speed, ttft_seconds=spread(20 / speed), tpot_seconds=spread(1 / speed),
        machine=Machine(program="test", version=None), marks=marks,
    )  # fmt: skip
