"""Figures of another tool -> a Cell."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from upright.records.benchmark import Api, Cell, Machine, Shape, Spread


@dataclass(frozen=True)
class Foreign:
    """What another tool measured; None where it says nothing."""

    program: str
    version: str | None
    shape: Shape
    seconds: float
    sent: int
    succeeded: int
    output_tokens_per_second: float
    total_tokens_per_second: float
    requests_per_second: float
    peak_tokens_per_second: float | None = None
    ttft: Spread | None = None
    tpot: Spread | None = None
    itl: Spread | None = None
    latency: Spread | None = None
    prompt: Spread | None = None
    output: Spread | None = None
    in_flight_peak: int = 0
    errors: Mapping[str, int] = field(default_factory=dict)
    at: str = ""
    notes: tuple[str, ...] = ()

    def cell(self, *, run: str, workload: str, repeat: int = 1, api: Api = "chat", recipe: str | None = None) -> Cell:
        from upright.benchmarking.verdict import marks

        cell = Cell(
            run=run, workload=workload, repeat=repeat, api=api, recipe=recipe, shape=self.shape, at=self.at,
            seconds=self.seconds, sent=self.sent, succeeded=self.succeeded, errors=dict(self.errors),
            output_tokens_per_second=self.output_tokens_per_second,
            total_tokens_per_second=self.total_tokens_per_second,
            requests_per_second=self.requests_per_second, peak_tokens_per_second=self.peak_tokens_per_second,
            ttft_seconds=self.ttft, tpot_seconds=self.tpot, itl_seconds=self.itl, latency_seconds=self.latency,
            prompt_tokens=self.prompt, output_tokens=self.output,
            in_flight_peak=self.in_flight_peak or self.shape.concurrency,
            machine=Machine(program=self.program, version=self.version), notes=self.notes,
        )  # fmt: skip
        return Cell.model_validate({**dict(cell), "marks": marks(cell)})


def scaled(spread: Spread | None, factor: float) -> Spread | None:
    if spread is None:
        return None
    return Spread(**{name: value if name == "count" else factor * value for name, value in dict(spread).items()})


def pick(data: Mapping[str, Any], *names: str, default: Any = None) -> Any:
    """The value at a path; the default if any step is missing."""
    found: Any = data
    for name in names:
        if not isinstance(found, Mapping) or name not in found:
            return default
        found = found[name]
    return default if found is None else found
