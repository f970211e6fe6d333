"""calibrate: measurements of one's own -> constants of speed that plans then use."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from upright.cli.output import Output, output_options, say

if TYPE_CHECKING:
    from upright.catalog.rows.speed import SpeedRow
    from upright.planning.speed.calibration import Calibration
    from upright.planning.speed.fitting import Sample


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
    from upright.planning.speed.calibration import calibrate, own_row

    if len(sources) == 1 and Path(sources[0]).suffix == ".csv":
        start, samples, left, capability = _from_csv(Path(sources[0]), **wanted)
    else:
        start, samples, left, capability = _from_deployments(sources)
    for words in left[:8]:
        say(f"not used: {words}")
    if len(left) > 8:
        say(f"not used: {len(left) - 8} more")
    found = calibrate(samples, start)
    name = f"own-{start.id.removeprefix('own-')}"
    row = own_row(found, name, capability, [Path(each).name for each in sources] or ["the last deployment"])
    if output.wants_record:
        output.answer(
            {"row": row.model_dump(mode="json", exclude={"owner", "file"}), "before": found.before.model_dump()}
        )
    output.show("\n".join(_page(found, row)))
    if found.held_out.median > found.before.median:
        say("nothing was written: the catalogue's constants predict your measurements better than a fit on them")
        output.next("bench")
        output.no()
    if dry_run:
        say("nothing was written")
        return
    say(f"wrote {_write(row)}: plans for this engine and silicon use it now")
    output.next("catalog", "show", "speeds", row.id)


def _from_csv(
    path: Path, *, model: str | None, gpu: str | None, row: str | None
) -> tuple[SpeedRow, tuple[Sample, ...], list[str], str | None]:
    from upright import catalog
    from upright.catalog.loader import rows_of_file
    from upright.catalog.rows.words import MeasurementRow
    from upright.errors import UsageError
    from upright.planning.speed.fits import speed_row
    from upright.planning.speed.published import model_record, rank_sample

    if not path.is_file():
        raise UsageError(f"no file {path}", hint="upright catalog list measurements --json shows the columns")
    start = speed_row(row or "vllm-sm120-pcie")
    used, left, capability = [], [], None
    for each in rows_of_file("measurements", path, "user"):
        assert isinstance(each, MeasurementRow)
        silicon = catalog.find_gpu(gpu or each.gpu) or catalog.find("gpus", gpu or each.gpu)
        if silicon is None:
            left.append(f"{each.id}: no GPU named {gpu or each.gpu} in the catalogue; say it with --gpu")
            continue
        known = catalog.find_model(model or each.model)
        if known is None:
            left.append(f"{each.id}: no model named {model or each.model} in the catalogue; say it with --model")
            continue
        found = rank_sample(each, start.kernels, model_record(known.id), catalog.gpu(silicon.id))
        if found is None:
            left.append(f"{each.id}: no parallelism (TP8 DCP1), context, concurrency or rate, or no acceptance")
            continue
        used.append(found)
        capability = catalog.gpu(silicon.id).compute_capability
    return start, tuple(used), left, capability


def _from_deployments(names: Sequence[str]) -> tuple[SpeedRow, tuple[Sample, ...], list[str], str | None]:
    from upright import store
    from upright.errors import UsageError
    from upright.planning.speed.calibration import cell_samples
    from upright.records.benchmark import Cell
    from upright.records.box import Box
    from upright.records.model import Model
    from upright.records.plan import Plan

    used: list[Sample] = []
    left: list[str] = []
    start, capability = None, None
    for name in names or (None,):
        directory = store.find(name)
        box = directory.read(Box)
        row, samples, unused = cell_samples(directory.entries(Cell), directory.read(Plan), directory.read(Model), box)
        if start is not None and row.id != start.id:
            raise UsageError(
                f"{directory.name} is of another engine or silicon than the rest", hint="calibrate one by one"
            )
        start, capability = row, next((gpu.compute_capability for gpu in box.gpus), None)
        used += samples
        left += unused
    assert start is not None
    return start, tuple(used), left, capability


def _page(found: Calibration, row: SpeedRow) -> list[str]:
    lines = [f"{found.rows} measurements, {len(found.fitted)} constants fitted, from speeds/{found.start.id}", ""]
    lines.append(f"  {'constant':<26}{'before':>10}{'now':>10}")
    for name in found.fitted:
        before, now = getattr(found.start.constants, name), getattr(row.constants, name)
        lines.append(f"  {name:<26}{before:>10.4g}{now:>10.4g}")
    lines += ["", f"  {'error':<34}{'median':>8}{'9 of 10':>9}"]
    for words, each in (("by the catalogue", found.before), ("fitted without the row itself", found.held_out)):
        lines.append(f"  {words:<34}{each.median:>8.1%}{each.ninth:>9.1%}")
    return lines


def _write(row: SpeedRow) -> Path:
    from upright.catalog.loader import user_folder
    from upright.records.yaml12 import to_yaml
    from upright.store import write_atomically

    path = user_folder() / "speeds" / f"{row.id}.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    content = row.model_dump(mode="json", exclude={"owner", "file"}, exclude_none=True)
    write_atomically(path, to_yaml(content).encode())
    return path
