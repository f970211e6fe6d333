"""calibrate: measurements of one's own -> constants of speed that plans then use."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from upright.cli.output import Output, output_options, say

if TYPE_CHECKING:
    from upright.catalog.rows.speed import SpeedRow
    from upright.requesting.calibrating import Calibration, OwnRuns


@click.command(name="calibrate")
@click.argument("sources", nargs=-1, metavar="[CSV | DEPLOYMENT...]")
@click.option("--model", help="Model of the CSV's rows, if they do not say it as the catalogue does.")
@click.option("--gpu", help="GPU of the CSV's rows, likewise.")
@click.option("--row", help="Constants to start from: a row of `upright catalog list speeds`.")
@click.option("--dry-run", is_flag=True, help="Say what would be written, and write nothing.")
@output_options
def command(output: Output, sources: tuple[str, ...], dry_run: bool, **wanted: Any) -> None:
    """Fit the constants of speed on your own measurements.

    SOURCES are one CSV with the columns of `upright catalog list measurements`, or deployments that `upright bench`
    measured; without any, the last deployment.
    """
    from upright.requesting.calibrating import calibrated

    if len(sources) == 1 and Path(sources[0]).suffix == ".csv":
        measured = _of_csv(Path(sources[0]), **wanted)
    else:
        measured = _of_deployments(sources)
    for reason in measured.unused[:8]:
        say(f"not used: {reason}")
    if len(measured.unused) > 8:
        say(f"not used: {len(measured.unused) - 8} more")
    calibration, row = calibrated(measured, [Path(source).name for source in sources] or ["the last deployment"])
    if output.wants_record:
        output.answer(
            {"row": row.model_dump(mode="json", exclude={"owner", "file"}), "before": calibration.before.model_dump()}
        )
    output.show("\n".join(_page(calibration, row)))
    if calibration.held_out.median > calibration.before.median:
        say("nothing was written: the catalogue's constants predict your measurements better than a fit on them")
        output.next("bench")
        output.no()
    if dry_run:
        say("nothing was written")
        return
    say(f"wrote {_write(row)}: plans for this engine and silicon use it now")
    output.next("catalog", "show", "speeds", row.id)


def _of_csv(path: Path, *, model: str | None, gpu: str | None, row: str | None) -> OwnRuns:
    from upright.catalog.loader import rows_of_file
    from upright.catalog.rows.words import MeasurementRow
    from upright.errors import UsageError
    from upright.requesting.calibrating import of_measurements

    if not path.is_file():
        raise UsageError(f"no file {path}", hint="upright catalog list measurements --json shows the columns")
    runs = [run for run in rows_of_file("measurements", path, "user") if isinstance(run, MeasurementRow)]
    return of_measurements(runs, model=model, gpu=gpu, row=row)


def _of_deployments(names: Sequence[str]) -> OwnRuns:
    from upright import store
    from upright.records.benchmark import Cell
    from upright.records.box import Box
    from upright.records.model import Model
    from upright.records.plan import Plan
    from upright.requesting.calibrating import Benchmarked, of_deployments

    directories = [store.find(name) for name in names or (None,)]
    return of_deployments(
        Benchmarked(folder.name, tuple(folder.entries(Cell)), folder.read(Plan), folder.read(Model), folder.read(Box))
        for folder in directories
    )


def _page(calibration: Calibration, row: SpeedRow) -> list[str]:
    start = calibration.start
    lines = [f"{calibration.rows} measurements, {len(calibration.fitted)} constants fitted, from speeds/{start.id}", ""]
    lines.append(f"  {'constant':<26}{'before':>10}{'now':>10}")
    for name in calibration.fitted:
        before, now = getattr(start.constants, name), getattr(row.constants, name)
        lines.append(f"  {name:<26}{before:>10.4g}{now:>10.4g}")
    lines += ["", f"  {'error':<34}{'median':>8}{'9 of 10':>9}"]
    fits = (("by the catalogue", calibration.before), ("fitted without the row itself", calibration.held_out))
    return lines + [f"  {fit:<34}{errors.median:>8.1%}{errors.ninth:>9.1%}" for fit, errors in fits]


def _write(row: SpeedRow) -> Path:
    from upright.catalog.loader import user_folder
    from upright.records.yaml12 import to_yaml
    from upright.store import write_atomically

    path = user_folder() / "speeds" / f"{row.id}.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    content = row.model_dump(mode="json", exclude={"owner", "file"}, exclude_none=True)
    write_atomically(path, to_yaml(content).encode())
    return path
