"""`upright fleet plan`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from upright.cli.fleet_options import fleet_argument
from upright.cli.output import Output, output_options, say

if TYPE_CHECKING:
    from rich.console import Console

    from upright.fleet.preparing import BoxPlan


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
    output.answer([each.to_dict() for each in plans], lambda console: _page(console, plans))
    output.next("fleet", "up", str(file)) if all(each.ready for each in plans) else output.no()


def _page(console: Console, plans: list[BoxPlan]) -> None:
    from upright.cli.pages import table_of
    from upright.units import tokens

    table = table_of("box", "at", "model", "engine", "context", "tok/s", "fits")
    reasons = []
    for each in plans:
        plan = each.prepared.plan if each.prepared else None
        problem = each.problem.message if each.problem else plan.objections[0].message if plan and not plan.fits else ""
        if plan is None:
            table.add_row(each.box.name, each.box.at, "-", "-", "-", "-", "unknown")
        else:
            best = plan.speed.decode.best if plan.speed else None
            context = f"{plan.goal.users} x {tokens(plan.context_tokens)}"
            speed = "-" if best is None else f"{best:.0f}"
            engine = f"{plan.engine} {plan.engine_version or ''}".strip()
            table.add_row(each.box.name, each.box.at, plan.model, engine, context, speed, "yes" if each.ready else "no")
        reasons += [f"{each.box.name}: {problem}"] if problem else []
    console.print(table)
    for reason in reasons:
        console.print(reason, markup=False)
