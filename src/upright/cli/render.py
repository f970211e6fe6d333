"""`upright render`."""

from __future__ import annotations

import click

from upright.cli.options import goal_options, model_argument, port_option
from upright.cli.output import Output, output_options, say


@click.command()
@model_argument
@goal_options
@port_option
@click.option("--to", type=click.Choice(["table", "shell"]), default="table", show_default=True, help="What to write.")
@output_options
def command(model: str, context: int | None, users: int, port: int, to: str, output: Output) -> None:
    """Write the exact command, with a reason for every flag."""
    from upright.cli.pages import objections_page, recipe_page
    from upright.host import LocalHost
    from upright.line import prepare
    from upright.records.plan import Goal
    from upright.rendering.shell import shell_script

    prepared = prepare(model, Goal(context_tokens=context, users=users), LocalHost(), port=port, tell=say)
    recipe = prepared.recipe
    if recipe is None:
        output.answer(prepared.plan, lambda console: objections_page(console, prepared.plan))
        output.no()
        return
    if to == "shell":
        output.answer(recipe, lambda console: console.out(shell_script(recipe), end=""))
    else:
        output.answer(recipe, lambda console: recipe_page(console, recipe))
    output.next("up", model)
