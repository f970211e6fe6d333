"""`upright fleet plan`."""

from __future__ import annotations

from pathlib import Path

import click

from upright.app.cli.fleet_options import fleet_argument
from upright.app.cli.output import Output, output_options, say


@click.command(name="plan")
@fleet_argument
@output_options
def command(output: Output, file: Path) -> None:
    """Say what each box would run, and what a roll would change of what runs.

    FILE is a fleet.yaml. Every box is probed and planned at the same time. The answer is no (exit code 1) if any of
    them cannot be reached, or the model does not fit on it.
    """
    from upright.app.pages.fleet_page import plans_page
    from upright.base.host import LocalHost
    from upright.flows.fleet import read_fleet
    from upright.flows.fleet.box_plans import plan_fleet
    from upright.flows.fleet.rendering import cluster_advice, next_step
    from upright.flows.fleet.rolling import planned_changes, roll_preview

    fleet = read_fleet(file)
    plans = plan_fleet(fleet, file.parent, tell=say)
    steps = roll_preview(fleet, plans)
    output.answer(planned_changes(fleet, plans, steps), lambda console: plans_page(console, plans, steps))
    if (advice := cluster_advice(fleet, LocalHost())) is not None:
        say(advice)
    if not all(box_plan.ready for box_plan in plans):
        output.no()
    output.next("fleet", *next_step(fleet, "up" if steps is None else "roll", str(file)))
