"""`upright tools calibrate`: fit the speed constants on your own measurements."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from upright.app.cli.options import SECONDS
from upright.app.cli.output import Output, output_options, say


@click.command(name="calibrate")
@click.argument("sources", nargs=-1, metavar="[CSV | DEPLOYMENT...]")
@click.option("--model", help="Model of the CSV's rows, if they do not say it as the catalogue does.")
@click.option("--gpu", help="GPU of the CSV's rows, likewise.")
@click.option("--row", help="Constants to start from: a row of `upright catalog list speeds`.")
@click.option("--plan", is_flag=True, help="Only say which cells to measure: those that tell most.")
@click.option("--budget", type=SECONDS, default="10m", show_default=True, help="Time for those cells; with --plan.")
@click.option("--dry-run", is_flag=True, help="Say what would be written, and write nothing.")
@output_options
def command(output: Output, sources: tuple[str, ...], plan: bool, budget: float, dry_run: bool, **wanted: Any) -> None:
    """Fit the constants of speed on your own measurements.

    SOURCES are one CSV with the columns of `upright catalog list measurements`, or deployments that `upright bench`
    measured; without any, the last deployment. Which loads to measure, --plan says.
    """
    from upright.app.pages.calibration_page import calibration_page, campaign_page
    from upright.flows.line.own_measurements import keep_speeds, own_runs, planned_measurements
    from upright.planning.requests.calibration import calibrate_runs

    if plan:
        name, cells = planned_measurements(sources, budget)
        output.answer(asdict(cells), lambda console: console.print(campaign_page(cells), highlight=False))
        output.next("bench", name, "--workload", "calibrate", "--budget", f"{budget:.0f}s")
        return
    measured = own_runs(sources, **wanted)
    for reason in measured.unused[:8]:
        say(f"not used: {reason}")
    if len(measured.unused) > 8:
        say(f"not used: {len(measured.unused) - 8} more")
    calibration, row = calibrate_runs(measured, [Path(source).name for source in sources] or ["the last deployment"])
    if output.wants_record:
        output.answer(
            {"row": row.model_dump(mode="json", exclude={"owner", "file"}), "before": calibration.before.model_dump()}
        )
    output.show(calibration_page(calibration, row))
    if calibration.refusal:
        say(f"nothing was written: {calibration.refusal}")
        output.next("bench")
        output.no()
    if dry_run:
        say("nothing was written")
        return
    say(f"wrote {keep_speeds(row)}: plans for this engine and silicon use it now")
    output.next("catalog", "show", "speeds", row.id)
