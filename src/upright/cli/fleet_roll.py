"""`upright fleet roll`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from upright.cli.fleet_options import fleet_argument, plans_page
from upright.cli.output import Output, output_options, say

if TYPE_CHECKING:
    from rich.console import Console

    from upright.records.fleet import Fleet, Roll


@click.command(name="roll")
@fleet_argument
@click.option("--again", is_flag=True, help="Restart boxes too whose recipe would stay the same.")
@click.option("--dry-run", is_flag=True, help="Say which boxes would be restarted, and stop.")
@output_options
def command(output: Output, file: Path, again: bool, dry_run: bool) -> None:
    """Give the boxes new recipes, one after the other, while clients go on.

    A box is drained, restarted, proved, and admitted again before the next one. The first that fails its proof is
    stepped back to the recipe it had, and the roll stops there: the answer is no (exit code 1). A roll that was killed
    goes on where it was when it is called again.
    """
    from upright.fleet import read_fleet
    from upright.fleet.rolling import roll

    fleet = read_fleet(file)
    if dry_run:
        _show_changes(output, fleet, file, again)
        return
    rolled = roll(fleet, file, tell=say, again=again)
    if rolled.roll is None:
        output.answer(
            [box_plan.to_dict() for box_plan in rolled.plans], lambda console: plans_page(console, [*rolled.plans])
        )
        say("nothing was touched")
        output.no()
        return
    made = rolled.roll
    output.answer(made.model_dump(mode="json"), lambda console: _page(console, made))
    output.next("fleet", "status", fleet.name)
    if not rolled.done:
        output.no()


def _show_changes(output: Output, fleet: Fleet, file: Path, again: bool) -> None:
    from upright.cli.fleet_options import started
    from upright.fleet.preparing import plan_fleet
    from upright.fleet.rolling import would_change

    started(str(file))
    plans = plan_fleet(fleet, file.parent, tell=say)
    if not all(box_plan.ready for box_plan in plans):
        output.answer([box_plan.to_dict() for box_plan in plans], lambda console: plans_page(console, plans))
        output.no()
    changes = {name: changed or again for name, changed in would_change(fleet, plans).items()}
    output.answer(changes)
    output.show("\n".join(f"{name}: {'would be restarted' if it else 'stays'}" for name, it in changes.items()))
    output.next("fleet", "roll", str(file))


def _page(console: Console, roll: Roll) -> None:
    from rich.text import Text

    from upright.showing.pages import table_of

    if roll.steps:
        table = table_of("box", "", "from", "to")
        for step in roll.steps:
            table.add_row(
                step.box, step.phase, *(recipe_id.partition(":")[2][:8] for recipe_id in (step.before, step.after))
            )
        console.print(table)
    outcome_texts = {"done": "every box has the recipe that was asked for", "going on": "going on"}
    console.print(Text(outcome_texts.get(roll.outcome, f"stopped: {roll.reason}")))
