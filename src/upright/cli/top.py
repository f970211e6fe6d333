"""`upright top`."""

from __future__ import annotations

import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from upright.cli.options import Address, Seconds, often_enough
from upright.cli.output import Output, output_options, page_width
from upright.errors import UsageError

if TYPE_CHECKING:
    from upright.line.watched_deployments import Watched
    from upright.monitoring.stations import Look, Sight
    from upright.store import DeploymentDir

_DEAD = frozenset({"failed", "hung", "degraded", "silent"})


@click.command()
@click.argument("deployments", nargs=-1, metavar="[DEPLOYMENT]...")
@click.option("--base-url", "base_urls", type=Address(), multiple=True,
              help="An engine that upright did not start; may be repeated.")  # fmt: skip
@click.option("--key-file", type=click.Path(path_type=Path, exists=True, dir_okay=False), help="A file with its key.")
@click.option("--every", type=Seconds(), default="2s", show_default=True, help="How often each is asked.")
@click.option("--once", is_flag=True, help="Print one table and stop; so it is without a terminal, and with --json.")
@output_options
def command(
    deployments: tuple[str, ...], base_urls: tuple[str, ...], key_file: Path | None, every: float, once: bool,
    output: Output,
) -> None:  # fmt: skip
    """Watch deployments live: tokens, queue, cache, errors, watts.

    Without names, every deployment that runs or has failed, also those that come later. q or Ctrl-C leaves.
    """
    from upright.line.watched_deployments import Watched

    with ExitStack() as stack:
        watched = Watched(deployments, base_urls, key_file, often_enough(every), stack, _look)
        if not watched.stations:
            raise UsageError("no deployment runs", hint="upright up MODEL, or --base-url URL")
        if once or output.wants_record or not sys.stdout.isatty():
            _print_once(watched, output, every)
        else:
            _live(watched, every)
    _next(watched.sights(), output, every)


def _look(directory: DeploymentDir) -> Look:
    from upright.launching import status
    from upright.monitoring.stations import Look
    from upright.showing.pages import why

    now = status(directory)
    return Look(
        name=now.name,
        state=now.state,
        reason=why(now) or None,
        software=" ".join(filter(None, (now.engine, now.engine_version))),
        model=now.served_name,
        base_url=now.base_url,
        next=f"upright {'diagnose' if now.state in {*_DEAD, 'ready'} else 'logs'} {now.name}",
    )


def _print_once(watched: Watched, output: Output, every: float) -> None:
    """Two readings, so that there are rates; what does not answer is waited for no longer than one reading may take."""
    from rich.text import Text

    from upright.monitoring.stations import PATIENCE_SECONDS
    from upright.showing.top_page import as_row, table

    deadline = time.monotonic() + PATIENCE_SECONDS + 2 * every
    while time.monotonic() < deadline and not all(station.settled for station in watched.stations.values()):
        time.sleep(0.05)
    sights, silent = watched.sights(), _silent(every)
    rows = [as_row(sight, silent) for sight in sights]
    output.answer(rows, lambda console: console.print(Text("\n").join(table(sights, page_width(), silent))))


def _live(watched: Watched, every: float) -> None:
    from upright.showing.top_page import screen
    from upright.terminal.screen import Screen

    with Screen() as terminal:
        try:
            while True:
                columns, lines = terminal.size
                clock = time.strftime("%H:%M:%S")
                terminal.draw(screen(watched.sights(), columns, lines, clock, every, _silent(every)))
                if not terminal.wait(min(every, 1.0)):
                    return
                watched.look_around()
        except KeyboardInterrupt:
            return


def _silent(every: float) -> float:
    """A reading older than this is late: a turn, and as long as one may take."""
    from upright.monitoring.stations import PATIENCE_SECONDS

    return 2 * every + PATIENCE_SECONDS


def _next(sights: list[Sight], output: Output, every: float) -> None:
    from upright.showing.top_page import state_of

    for sight in sights:
        if state_of(sight, _silent(every)) in _DEAD and sight.look.next and sight.look.next.startswith("upright "):
            output.next(*sight.look.next.split()[1:])
            return
    foreign = next((sight.look.base_url for sight in sights if sight.look.state == "answers"), None)
    output.next(*(("bench", "--base-url", foreign, "--model", "NAME") if foreign else ("monitor",)))
