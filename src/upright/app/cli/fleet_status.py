"""`upright fleet status`."""

from __future__ import annotations

import click

from upright.app.cli.fleet_options import started_argument
from upright.app.cli.output import Output, output_options, say


@click.command(name="status")
@started_argument
@output_options
def command(output: Output, fleet: str | None) -> None:
    """Show each box, as it is and as the router sees it.

    The answer is no (exit code 1) unless every box is ready and gets requests.
    """
    from upright.app.pages.fleet_page import status_page
    from upright.flows.fleet.current_status import fleet_status
    from upright.flows.fleet.directory import FleetDir
    from upright.flows.fleet.named_fleet import file_of, started_fleet

    begun = started_fleet(fleet)
    seen = fleet_status(begun)
    output.answer(seen.to_dict(), lambda console: status_page(console, seen))
    if seen.roll is not None:
        say(seen.roll)
    for name in seen.left:
        say(f"{name} runs, and fleet.yaml no longer names it: upright fleet roll takes it out")
    if seen.cut_answers:
        say(
            f"answers cut by boxes that failed, since the fleet came up: {seen.cut_answers}; such a stream ends with "
            "an error event, and then with [DONE] as if it were whole"
        )
    say(f"clients' key: {FleetDir(begun.name).client_key_file}")
    if seen.well:
        output.next("connect", begun.name)
        return
    if seen.wants == "time":
        output.next("fleet", "status", begun.name)
    elif seen.wants == "diagnosis":
        output.next("diagnose", seen.broken or "")
    else:
        output.next("fleet", "roll" if seen.wants == "roll" else "up", *file_of(begun))
    output.no()
