"""A workload's name and what is said besides -> SweepRequest."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from upright.base.errors import UsageError
from upright.facts.records.loading import load
from upright.facts.records.trace import AgentTrace
from upright.proof.benchmark.cell import RequestPromise, open_shape
from upright.proof.benchmark.sweep import SweepRequest
from upright.proof.benchmark.workload import workload as named

_DEFAULT_BUDGET_SECONDS = 900.0


def asked_sweep(
    workload: str, concurrency: tuple[int, ...] | None, prompt_tokens: int | None, output_tokens: int | None,
    requests: int | None, rate: float | None, repeats: int, budget: float | None, ttft: float, tpot: float,
    seed: int, fresh: bool, api: str, trace: Path | None = None,
) -> SweepRequest:  # fmt: skip
    """The workload's shapes, with what was said otherwise."""
    row = named(workload)
    changes: dict[str, Any] = {}
    if concurrency:
        changes["concurrency"] = concurrency
    if prompt_tokens:
        changes |= {"prompt_tokens": prompt_tokens, "contexts": ()}
    if output_tokens:
        changes["output_tokens"] = output_tokens
    if prompt_tokens or output_tokens:
        tokens = prompt_tokens or row.prompt_tokens
        changes["about"] = f"{tokens:,} tokens in, {output_tokens or row.output_tokens:,} out" + (
            f", {row.turns} turns" if row.turns > 1 else ""
        )
    row = row.model_copy(update=changes)
    shapes = row.shapes()
    if requests is not None:
        shapes = [shape.model_copy(update={"requests": requests}) for shape in shapes]
    if rate is not None:
        if row.search is not None:
            raise UsageError(
                f"--rate cannot be given to {row.name}, which looks for one", hint="--workload short --rate 4"
            )
        shapes = [open_shape(shape, rate, shape.requests) for shape in shapes]
    seconds = _DEFAULT_BUDGET_SECONDS if budget is None else budget
    promise, agents = RequestPromise(ttft, tpot), load(trace, AgentTrace) if trace else None
    return SweepRequest(row, tuple(shapes), repeats, seed, seconds, promise, fresh=fresh, trace=agents)
