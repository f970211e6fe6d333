"""`upright tools top`."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from upright.app.cli.options import ADDRESS, SECONDS, checked_interval
from upright.app.cli.output import Output, output_options, page_width
from upright.base.errors import UsageError

if TYPE_CHECKING:
    from upright.flows.line.watched_deployments import WatchedDeployments


@click.command()
@click.argument("deployments", nargs=-1, metavar="[DEPLOYMENT]...")
@click.option("--base-url", "base_urls", type=ADDRESS, multiple=True,
              help="An engine that upright did not start; may be repeated.")  # fmt: skip
@click.option("--key-file", type=click.Path(path_type=Path, exists=True, dir_okay=False), help="A file with its key.")
@click.option("--every", type=SECONDS, default="2s", show_default=True, help="How often each is asked.")
@click.option("--once", is_flag=True, help="Print one table and stop; so it is without a terminal, and with --json.")
@output_options
def command(
    deployments: tuple[str, ...], base_urls: tuple[str, ...], key_file: Path | None, every: float, once: bool,
    output: Output,
) -> None:  # fmt: skip
    """Watch deployments live: tokens, queue, cache, errors, watts.

    Without names, every deployment that runs or has failed, also those that come later. q or Ctrl-C leaves.
    """
    from upright.app.pages.top_live import live, look_at, next_words
    from upright.flows.line.watched_deployments import WatchedDeployments

    with ExitStack() as stack:
        watched = WatchedDeployments(deployments, base_urls, key_file, checked_interval(every), stack, look_at)
        if not watched.stations:
            raise UsageError("no deployment runs", hint="upright up MODEL, or --base-url URL")
        if once or output.wants_record or not sys.stdout.isatty():
            _print_once(watched, output, every)
        else:
            live(watched, every)
    output.next(*next_words(watched.sights(), every))


def _print_once(watched: WatchedDeployments, output: Output, every: float) -> None:
    from rich.text import Text

    from upright.app.pages.top_live import read_twice, silent_after
    from upright.app.pages.top_page import as_row, table

    sights, silent = read_twice(watched, every), silent_after(every)
    rows = [as_row(sight, silent) for sight in sights]
    output.answer(rows, lambda console: console.print(Text("\n").join(table(sights, page_width(), silent))))
