"""`upright fleet roll`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from upright.app.cli.fleet_options import fleet_argument
from upright.app.cli.output import Output, output_options, say, watched

if TYPE_CHECKING:
    from upright.facts.records.fleet import Fleet


@click.command(name="roll")
@fleet_argument
@click.option("--again", is_flag=True, help="Restart boxes too whose recipe would stay the same.")
@click.option("--canary", type=click.IntRange(min=1), help="Boxes of the first wave. [default: 1]")
@click.option("--max-unavailable", metavar="N|N%", help="Boxes out at once. [default: 1 up to 8 boxes, else 10%]")
@click.option("--dry-run", is_flag=True, help="Say what would be done, and stop.")
@output_options
def command(
    output: Output, file: Path, again: bool, canary: int | None, max_unavailable: str | None, dry_run: bool
) -> None:
    """Make what runs what fleet.yaml says, step by step, while clients go on.

    Boxes join, leave, go elsewhere, get new recipes, and the router new settings. A box is drained, changed, proved,
    and admitted again before the next wave. The first that fails its proof is stepped back to what it was, and the
    roll stops: the answer is no (exit code 1). A roll that was killed goes on when it is called again.
    """
    from upright.app.pages.fleet_page import plans_page, roll_page
    from upright.flows.fleet import read_fleet
    from upright.flows.fleet.rolling import roll
    from upright.flows.fleet.waves import RollWidth

    fleet = read_fleet(file)
    if dry_run:
        _show_changes(output, fleet, file, again)
        return
    with watched() as tell:
        rolled = roll(fleet, file, tell=tell, again=again, width=RollWidth(canary, max_unavailable))
    if rolled.roll is None:
        output.answer(
            [box_plan.to_dict() for box_plan in rolled.plans], lambda console: plans_page(console, rolled.plans)
        )
        say("nothing was touched")
        output.no()
        return
    made = rolled.roll
    output.answer(made.model_dump(mode="json"), lambda console: roll_page(console, made))
    output.next("fleet", "status", fleet.name)
    if not rolled.done:
        output.no()


def _show_changes(output: Output, fleet: Fleet, file: Path, again: bool) -> None:
    from upright.app.pages.fleet_page import plans_page, steps_page
    from upright.flows.fleet.box_plans import plan_fleet
    from upright.flows.fleet.named_fleet import started_fleet
    from upright.flows.fleet.rolling import roll_preview

    started_fleet(str(file))
    plans = plan_fleet(fleet, file.parent, tell=say)
    if not all(box_plan.ready for box_plan in plans):
        output.answer([box_plan.to_dict() for box_plan in plans], lambda console: plans_page(console, plans))
        output.no()
    steps = roll_preview(fleet, plans, again=again) or ()
    changes = {box_plan.box.name: False for box_plan in plans} | {step.name: True for step in steps}
    output.answer(changes, lambda console: steps_page(console, steps))
    output.next("fleet", "roll", str(file))
