"""Your own measurements, from a CSV or benchmarked deployments, to fit speed constants on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from upright.base.errors import UsageError
from upright.base.yaml12 import to_yaml
from upright.facts import store
from upright.facts.catalog.loader import rows_of_file, user_folder
from upright.facts.catalog.rows.speed import SpeedRow
from upright.facts.catalog.rows.words import MeasurementRow
from upright.facts.records.benchmark import Cell
from upright.facts.records.box import Box
from upright.facts.records.model import Model
from upright.facts.records.plan import Plan
from upright.planning.requests.calibration import (
    BenchmarkedDeployment,
    Campaign,
    OwnRuns,
    measurement_plan,
    runs_of_deployments,
    runs_of_measurements,
)


def own_runs(
    sources: Sequence[str], *, model: str | None = None, gpu: str | None = None, row: str | None = None
) -> OwnRuns:
    """Of one CSV, or of deployments; of the last one if none is named."""
    if len(sources) == 1 and Path(sources[0]).suffix == ".csv":
        return _of_csv(Path(sources[0]), model=model, gpu=gpu, row=row)
    directories = [store.find(name) for name in sources or (None,)]
    return runs_of_deployments(
        BenchmarkedDeployment(
            folder.name, tuple(folder.entries(Cell)), folder.read(Plan), folder.read(Model), folder.read(Box)
        )
        for folder in directories
    )


def planned_measurements(sources: Sequence[str], budget_seconds: float) -> tuple[str, Campaign]:
    """The name of a deployment, and which of its cells to measure."""
    if len(sources) > 1 or any(source.endswith(".csv") for source in sources):
        raise UsageError("cells are planned for one deployment", hint="upright tools calibrate DEPLOYMENT --plan")
    folder = store.running_or_last(sources[0] if sources else None)
    return folder.name, measurement_plan(folder.read(Plan), folder.read(Model), folder.read(Box), budget_seconds)


def keep_speeds(row: SpeedRow) -> Path:
    """Into the person's own catalogue, where plans find it."""
    path = user_folder() / "speeds" / f"{row.id}.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    content = row.model_dump(mode="json", exclude={"owner", "file"}, exclude_none=True)
    store.write_atomically(path, to_yaml(content).encode())
    return path


def _of_csv(path: Path, *, model: str | None, gpu: str | None, row: str | None) -> OwnRuns:
    if not path.is_file():
        raise UsageError(f"no file {path}", hint="upright catalog list measurements --json shows the columns")
    runs = [run for run in rows_of_file("measurements", path, "user") if isinstance(run, MeasurementRow)]
    return runs_of_measurements(runs, model=model, gpu=gpu, row=row)
