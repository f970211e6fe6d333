"""`upright logs`."""

from __future__ import annotations

import click

from upright.app.cli.options import deployment_argument
from upright.app.cli.output import Output


@click.command()
@deployment_argument
@click.option("-f", "--follow", is_flag=True, help="Keep printing while the engine runs, over its restarts too.")
@click.option("-n", "--lines", type=click.IntRange(0), help="Only the last LINES lines.")
@click.option("-p", "--previous", is_flag=True, help="The log of the start before this one.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON string a line.")
def command(deployment: str | None, follow: bool, lines: int | None, previous: bool, as_json: bool) -> None:
    """Show an engine's log."""
    from upright.app.pages.log_lines import LogLines
    from upright.base.errors import UsageError
    from upright.facts import store
    from upright.serving.launch import logs

    directory = store.find(deployment)
    log = directory.log
    if previous:
        older = logs.earlier_logs(directory)
        if not older or follow:
            why = "a log of the past has an end" if older else f"{directory.name} was started only once"
            raise UsageError(f"{why}: there is nothing to show", hint=f"upright logs {directory.name}")
        log = older[-1]
    printed = LogLines(click.echo, as_json=as_json)
    position = printed.show(log, lines)
    if not follow:
        return
    try:
        for piece in logs.follow(directory, position):
            printed.take(piece)
    except KeyboardInterrupt:
        pass  # the engine goes on; so may whoever looked
    printed.end()
    Output(as_json, None).next("diagnose", directory.name)
