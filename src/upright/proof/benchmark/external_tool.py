"""A Benchmark by another load generator on the same endpoint."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from upright.facts.records.benchmark import WITH_TOOL, Benchmark, Cell
from upright.facts.store import DeploymentDir
from upright.proof.benchmark.bench import save_benchmark
from upright.proof.benchmark.drivers import drive
from upright.proof.benchmark.drivers.foreign import cell_of
from upright.proof.benchmark.endpoints import KnownEndpoint
from upright.proof.benchmark.sweep import SweepRequest


def bench_with_tool(
    tool: str, known: KnownEndpoint, asked: SweepRequest, directory: DeploymentDir, program: str | None,
    tokenizer: str | None, *, tell: Callable[[str], None],
) -> Benchmark:  # fmt: skip
    """Each shape once for each repeat; there is nothing to resume, since a tool's run is whole or nothing."""
    at = datetime.now(UTC).isoformat(timespec="milliseconds")
    name = f"{asked.workload.name}{WITH_TOOL}{tool}"
    run = f"{tool}-{at[:19].replace(':', '')}"
    cells: list[Cell] = []
    for repeat in range(1, asked.repeats + 1):
        for shape in asked.shapes:
            tell(f"{tool}: {shape.prompt_tokens:,}/{shape.output_tokens:,}, {shape.concurrency:,} at once")
            measurements = drive(
                tool, known.target, shape, program=program, tokenizer=tokenizer, seed=asked.seed + repeat
            )
            for measurement in measurements:
                cell = cell_of(
                    measurement, run=run, workload=name, repeat=repeat, api=known.target.api, recipe=known.recipe
                )
                directory.append(cell)
                cells.append(cell)
    record = Benchmark(
        made_from=known.made_from, run=run, title=known.name, workload=name, about=asked.workload.about,
        deployment=known.deployment, model=known.target.model, engine=known.engine,
        engine_version=known.engine_version, base_url=known.target.base_url, at=at, seed=asked.seed,
        repeats=asked.repeats, self_test=None, cells=tuple(cells),
    )  # fmt: skip
    save_benchmark(directory, record)
    return record
