"""`upright fleet status`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from upright.cli.fleet_options import file_of, started, started_argument
from upright.cli.output import Output, output_options, say

if TYPE_CHECKING:
    from rich.console import Console

    from upright.fleet.looking import FleetLook


@click.command(name="status")
@started_argument
@output_options
def command(output: Output, fleet: str | None) -> None:
    """Show each box, as it is and as the router sees it.

    The answer is no (exit code 1) unless every box is ready and gets requests.
    """
    from upright.fleet.directory import FleetDir
    from upright.fleet.looking import look

    started_fleet = started(fleet)
    seen = look(started_fleet)
    output.answer(seen.to_dict(), lambda console: status_page(console, seen))
    if seen.roll is not None:
        say(seen.roll)
    for name in seen.left:
        say(f"{name} runs, and fleet.yaml no longer names it: upright down {name}")
    if seen.cut_answers:
        say(
            f"answers cut by boxes that failed, since the router started: {seen.cut_answers}; such a stream ends with "
            "an error event, and then with [DONE] as if it were whole"
        )
    if not seen.well:
        output.next("fleet", "roll" if seen.roll else "up", *file_of(started_fleet))
        output.no()
    say(f"clients' key: {FleetDir(started_fleet.name).client_key_file}")
    output.next("fleet", "roll", *file_of(started_fleet))


def status_page(console: Console, seen: FleetLook) -> None:
    from rich.text import Text

    from upright.showing.pages import coloured, table_of

    router = seen.router
    where = f" at {router['base_url']}/v1" if router.get("answers") else ""
    reason = f", {router['reason']}" if router.get("reason") else ""
    console.print(Text.assemble(f"{seen.name}: router ", coloured(router["state"]), f"{where}{reason}"))
    table = table_of("box", "at", "state", "in flight", "router says", "engine", "recipe")
    for box in seen.boxes:
        flight = "-" if box.in_flight is None else str(box.in_flight)
        says = box.router or ("not listed" if box.admitted else "off the list")
        recipe = (box.recipe or "-")[:8]
        table.add_row(box.box, box.at, coloured(box.state), flight, coloured(says), box.engine or "-", recipe)
    console.print(table)
    for box in seen.boxes:
        if box.reason and box.state != "ready":
            console.print(Text(f"{box.box}: {box.reason}"))
