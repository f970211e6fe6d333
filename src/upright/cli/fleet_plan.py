"""`upright fleet plan`."""

from __future__ import annotations

from pathlib import Path

import click

from upright.cli.fleet_options import fleet_argument, plans_page
from upright.cli.output import Output, output_options, say


@click.command(name="plan")
@fleet_argument
@output_options
def command(output: Output, file: Path) -> None:
    """Say what each box would run, before anything starts.

    FILE is a fleet.yaml. Every box is probed and planned at the same time. The answer is no (exit code 1) if any of
    them cannot be reached, or the model does not fit on it.
    """
    from upright.fleet import read_fleet
    from upright.fleet.preparing import plan_fleet

    fleet = read_fleet(file)
    plans = plan_fleet(fleet, file.parent, tell=say)
    output.answer([box_plan.to_dict() for box_plan in plans], lambda console: plans_page(console, plans))
    if not all(box_plan.ready for box_plan in plans):
        output.no()
    output.next("fleet", "up", str(file))
