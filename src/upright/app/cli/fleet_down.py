"""`upright fleet down`."""

from __future__ import annotations

import click

from upright.app.cli.fleet_options import started_argument
from upright.app.cli.output import Output, output_options, say, watched


@click.command(name="down")
@started_argument
@click.option("--dry-run", is_flag=True, help="Say what would be stopped, and stop.")
@output_options
def command(output: Output, fleet: str | None, dry_run: bool) -> None:
    """Stop the router and the boxes.

    The router goes first. Deployments and their evidence are kept; `upright fleet up` starts them again. The answer is
    no (exit code 1) if one of them may still run, or has left keys, on a machine that cannot be reached.
    """
    from upright.app.pages.fleet_page import ended_page, status_page
    from upright.flows.fleet.current_status import fleet_status
    from upright.flows.fleet.named_fleet import started_fleet
    from upright.flows.fleet.starting import down

    begun = started_fleet(fleet)
    if dry_run:
        seen = fleet_status(begun)
        output.answer(seen.to_dict(), lambda console: status_page(console, seen))
        say("these would be stopped, the router first")
        output.next("fleet", "down", begun.name)
        return
    with watched() as tell:
        ended = down(begun, tell=tell)
    output.answer(
        [deployment.to_dict() for deployment in ended.deployments],
        lambda console: ended_page(console, ended.deployments),
    )
    for name, problem in ended.problems.items():
        say(f"{name}: {problem.message}")
    if ended.problems:
        output.next("fleet", "down", begun.name)
        output.no()
