"""`upright ps`."""

from __future__ import annotations

import click

from upright.cli.output import Output, output_options


@click.command()
@output_options
def command(output: Output) -> None:
    """List deployments and their state."""
    from upright import store
    from upright.cli.pages import ps_page
    from upright.launching import status

    states = [status(directory) for directory in store.deployments()]
    output.answer([state.to_dict() for state in states], lambda console: ps_page(console, states))
    last = states[-1] if states else None
    if last is not None and last.state in ("ready", "failed"):
        output.next("connect" if last.state == "ready" else "logs", last.name)
    else:
        output.next("up", "MODEL")
