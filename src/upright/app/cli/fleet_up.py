"""`upright fleet up`."""

from __future__ import annotations

from pathlib import Path

import click

from upright.app.cli.fleet_options import fleet_argument
from upright.app.cli.output import Output, output_options, say, watched


@click.command(name="up")
@fleet_argument
@click.option("--dry-run", is_flag=True, help="Show what each box and the router would run, and stop.")
@output_options
def command(output: Output, file: Path, dry_run: bool) -> None:
    """Start the boxes, then the router, and prove that clients get through.

    What runs already is left as it is: new recipes come by `upright fleet roll`. Everything outlives this terminal. The
    answer is no (exit code 1) if a box does not come up, or a client's request fails on its way through the router.
    """
    from upright.app.pages.fleet_page import plans_page, status_page
    from upright.flows.fleet import read_fleet
    from upright.flows.fleet.box_plans import plan_fleet
    from upright.flows.fleet.current_status import fleet_status
    from upright.flows.fleet.rendering import next_step
    from upright.flows.fleet.starting import up

    fleet = read_fleet(file)
    if dry_run:
        plans = plan_fleet(fleet, file.parent, tell=say)
        output.answer([box_plan.to_dict() for box_plan in plans], lambda console: plans_page(console, plans))
        output.next("fleet", *next_step(fleet, "up", str(file)))
        return
    with watched() as tell:
        made = up(fleet, file, tell=tell)
    if made.router is None:
        output.answer([box_plan.to_dict() for box_plan in made.plans], lambda console: plans_page(console, made.plans))
        output.next("fleet", "plan", str(file))
        output.no()
    seen = fleet_status(fleet)
    proof = made.evidence.to_dict() if made.evidence else None
    output.answer({**seen.to_dict(), "proof": proof}, lambda console: status_page(console, seen))
    if made.evidence is not None:
        say(f"through the router: {len(made.evidence.observations)} checks, {len(made.failed)} failed")
        for observation in made.evidence.observations:
            if observation.verdict == "failed":
                own = "" if observation in made.failed else " (at the box itself too: the engine's own)"
                say(f"  {observation.rung} {observation.check}: {observation.reason}{own}")
    output.next("fleet", "status", fleet.name)
    if not made.stands:
        output.no()
