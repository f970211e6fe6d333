"""Cells from the figures of another tool."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from upright.engines.facets.bench import Foreign
from upright.facts.records.benchmark import Api, Cell, Machine, Spread


def cell_of(
    foreign: Foreign, *, run: str, workload: str, repeat: int = 1, api: Api = "chat", recipe: str | None = None
) -> Cell:
    from upright.proof.benchmark.cell_marks import marks

    cell = Cell(
        run=run, workload=workload, repeat=repeat, api=api, recipe=recipe, shape=foreign.shape, at=foreign.at,
        seconds=foreign.seconds, sent=foreign.sent, succeeded=foreign.succeeded, errors=dict(foreign.errors),
        output_tokens_per_second=foreign.output_tokens_per_second,
        total_tokens_per_second=foreign.total_tokens_per_second,
        requests_per_second=foreign.requests_per_second, peak_tokens_per_second=foreign.peak_tokens_per_second,
        ttft_seconds=foreign.ttft, tpot_seconds=foreign.tpot, itl_seconds=foreign.itl,
        latency_seconds=foreign.latency, prompt_tokens=foreign.prompt, output_tokens=foreign.output,
        in_flight_peak=foreign.in_flight_peak or foreign.shape.concurrency,
        machine=Machine(program=foreign.program, version=foreign.version), notes=foreign.notes,
    )  # fmt: skip
    return Cell.model_validate({**dict(cell), "marks": marks(cell)})


def scaled(spread: Spread | None, factor: float) -> Spread | None:
    if spread is None:
        return None
    return Spread(
        **{name: statistic if name == "count" else factor * statistic for name, statistic in dict(spread).items()}
    )


def pick(data: Mapping[str, Any], *names: str, default: Any = None) -> Any:
    """The value at a path; the default if any step is missing."""
    node: Any = data
    for name in names:
        if not isinstance(node, Mapping) or name not in node:
            return default
        node = node[name]
    return default if node is None else node
