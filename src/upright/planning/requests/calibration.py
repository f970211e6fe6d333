"""Calibration of speed constants by one's own measurements; the caller read its rows and records."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from upright.base.errors import UsageError
from upright.facts import catalog
from upright.facts.catalog import versions
from upright.facts.catalog.rows.speed import FittedRange, SpeedRow
from upright.facts.catalog.rows.words import MeasurementRow
from upright.facts.records.benchmark import Cell
from upright.facts.records.box import Box
from upright.facts.records.model import Model
from upright.facts.records.plan import Plan
from upright.planning.speed.calibration import Calibration as Calibration
from upright.planning.speed.calibration import calibrate, cell_samples, deployment_case, own_home, own_row
from upright.planning.speed.campaign import REPEATS as REPEATS
from upright.planning.speed.campaign import Campaign as Campaign
from upright.planning.speed.campaign import campaign
from upright.planning.speed.fitting import Sample
from upright.planning.speed.published import model_record, rank_sample, row_of
from upright.planning.speed.rows import NO_GPU, speed_row


@dataclass(frozen=True)
class OwnRuns:
    """Samples of one engine on one silicon, and what could not be used."""

    start: SpeedRow
    """Constants to start from."""
    samples: tuple[Sample, ...]
    unused: tuple[str, ...]
    """Reasons, one a measurement."""
    capability: str | None
    home: FittedRange | None = None
    """What they are of, where a plan tells."""


@dataclass(frozen=True)
class BenchmarkedDeployment:
    """A deployment that `bench` measured."""

    name: str
    cells: Sequence[Cell]
    plan: Plan
    model: Model
    box: Box


def calibrate_runs(measured: OwnRuns, sources: Sequence[str]) -> tuple[Calibration, SpeedRow]:
    """The fit, and the row that a person's own catalogue would hold."""
    calibration = calibrate(measured.samples, measured.start)
    name = f"own-{measured.start.id.removeprefix('own-')}"
    return calibration, own_row(calibration, name, measured.capability, measured.home, sources)


def measurement_plan(plan: Plan, model: Model, box: Box, budget_seconds: float, repeats: int = REPEATS) -> Campaign:
    """Which cells of a running deployment to measure in that time, each of them so often."""
    return campaign(deployment_case(plan, model, box), budget_seconds, repeats)


def runs_of_measurements(
    runs: Sequence[MeasurementRow], *, model: str | None = None, gpu: str | None = None, row: str | None = None
) -> OwnRuns:
    """The names that are given stand for what the rows say."""
    start = speed_row(row) if row else _start(runs, gpu)
    samples: list[Sample] = []
    unused: list[str] = []
    capability = None
    for run in runs:
        silicon, known = _gpu(gpu or run.gpu), catalog.find_model(model or run.model)
        if silicon is None:
            unused.append(f"{run.id}: no GPU named {gpu or run.gpu} in the catalogue; say it with --gpu")
            continue
        if known is None:
            unused.append(f"{run.id}: no model named {model or run.model} in the catalogue; say it with --model")
            continue
        sample = rank_sample(run, start.kernels, model_record(known.id), catalog.gpu(silicon))
        if sample is None:
            unused.append(f"{run.id}: no parallelism (TP8 DCP1), context, concurrency or rate, or no acceptance")
            continue
        samples.append(sample)
        capability = catalog.gpu(silicon).compute_capability
    return OwnRuns(start, tuple(samples), tuple(unused), capability)


def _start(runs: Sequence[MeasurementRow], gpu: str | None) -> SpeedRow:
    """What a plan for the first run would take that the catalogue has constants for."""
    rows = (row_of(run, _gpu(gpu or run.gpu)) for run in runs)
    start = next((row for row in rows if row is not None), None)
    if start is None:
        engines = ", ".join(sorted({run.engine for run in runs})) or "no engine"
        raise UsageError(
            f"the catalogue has no constants of {engines}",
            hint="name a row to start from with --row: upright catalog list speeds",
        )
    return start


def _gpu(name: str) -> str | None:
    silicon = catalog.find_gpu(name) or catalog.find("gpus", name)
    return silicon.id if silicon else None


def runs_of_deployments(benchmarked: Iterable[BenchmarkedDeployment]) -> OwnRuns:
    """All of one engine on one silicon."""
    samples: list[Sample] = []
    unused: list[str] = []
    start, capability, homes = None, None, list[FittedRange]()
    for deployment in benchmarked:
        row, usable, left = cell_samples(deployment.cells, deployment.plan, deployment.model, deployment.box)
        if start is not None and row.id != start.id:
            raise UsageError(
                f"{deployment.name} is of another engine or silicon than the rest", hint="calibrate one by one"
            )
        start, capability = row, next((gpu.compute_capability for gpu in deployment.box.gpus), NO_GPU)
        if usable:
            homes.append(own_home(usable, deployment.plan, deployment.model, deployment.box))
        samples += usable
        unused += left
    assert start is not None
    return OwnRuns(start, tuple(samples), tuple(unused), capability, _joined(homes) if homes else None)


def _span(measured: Sequence[str]) -> str:
    """The versions of an engine that were measured, as a range."""
    if "*" in measured:
        return "*"
    first, last = (choose(measured, key=versions.parse) for choose in (min, max))
    return f"=={first}" if first == last else f">={first},<={last}"


def _joined(homes: Sequence[FittedRange]) -> FittedRange:
    return FittedRange(
        shapes=tuple(sorted({shape for home in homes for shape in home.shapes})),
        formats=tuple(sorted({name for home in homes for name in home.formats})),
        gpus=tuple(sorted({gpu for home in homes for gpu in home.gpus})),
        versions=_span([home.versions.removeprefix("==") for home in homes]),
        users=max(home.users for home in homes),
        context_tokens=max(home.context_tokens for home in homes),
    )
