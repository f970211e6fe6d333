"""`upright down`."""

from __future__ import annotations

import click

from upright.app.cli.options import deployment_argument
from upright.app.cli.output import Output, output_options


@click.command()
@deployment_argument
@click.option("--dry-run", is_flag=True, help="Say what would be stopped, and stop nothing.")
@output_options
def command(deployment: str | None, dry_run: bool, output: Output) -> None:
    """Stop a deployment."""
    from upright.app.pages.deployment_pages import deployment_page, stopping_page
    from upright.facts import store
    from upright.facts.records.deployment import RUNNING
    from upright.serving.launch import status, take_down

    directory = store.running_or_last(deployment)
    if dry_run:
        state = status(directory)
        output.answer(state, lambda console: stopping_page(console, state))
        output.next(*(("down", state.name) if state.state in RUNNING else ("ps",)))
        return
    stopped = take_down(directory)
    output.answer(stopped, lambda console: deployment_page(console, stopped))
    output.next("report", stopped.name)
