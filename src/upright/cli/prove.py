"""`upright prove`."""

from __future__ import annotations

import click

from upright.cli.options import deployment_argument, running_or_last
from upright.cli.output import Output, output_options, say


@click.command()
@deployment_argument
@click.option("--to", default="smoke", show_default=True, help="The last rung to climb.")
@click.option("--prompts", help="Prompt set: real or tiny.  [default: by the model's size]")
@output_options
def command(deployment: str | None, to: str, prompts: str | None, output: Output) -> None:
    """Climb the proof ladder on a running deployment."""
    from upright.cli.pages import evidence_page
    from upright.line import climb
    from upright.proving.prompts import prompt_set

    directory = running_or_last(deployment)
    evidence = climb(directory, to=to, tell=say, prompts=prompt_set(prompts) if prompts else None)
    output.answer(evidence, lambda console: evidence_page(console, evidence))
    output.next(*(("connect" if evidence.passed else "logs"), directory.name))
    if not evidence.passed:
        output.no()
