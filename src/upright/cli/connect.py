"""`upright connect`."""

from __future__ import annotations

import click

from upright.cli.options import deployment_argument, running_or_last
from upright.cli.output import Output, output_options


@click.command()
@deployment_argument
@click.option("--client", default="openai", show_default=True, help="openai, anthropic, claude-code or curl.")
@output_options
def command(deployment: str | None, client: str, output: Output) -> None:
    """Print the settings for a client.

    They are checked against the running engine before they are printed. The key stays in its file.
    """
    from upright.connecting import connect
    from upright.endpoint.client import Endpoint
    from upright.errors import LaunchError
    from upright.launching import status
    from upright.records.deployment import RUNNING

    directory = running_or_last(deployment)
    state = status(directory)
    settings = connect(state, directory.key_file, client)
    if state.state not in RUNNING:
        raise LaunchError(f"{state.name} is {state.state}", hint="upright ps")
    with Endpoint(state.base_url, state.served_name, key=directory.key(), timeout_seconds=10) as endpoint:
        served = endpoint.models()
    if state.served_name not in served:
        raise LaunchError(f"{state.base_url} serves {', '.join(served) or 'nothing'}, not {state.served_name}")
    output.answer(settings.model_dump(mode="json"), lambda console: console.out(settings.text, end=""))
    output.next("report", state.name)
