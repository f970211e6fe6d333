"""`upright up`."""

from __future__ import annotations

import click

from upright.cli.options import given, goal_options, model_argument, port_option
from upright.cli.output import Output, output_options, say


@click.command()
@model_argument
@goal_options
@port_option
@click.option("--dry-run", is_flag=True, help="Show the command that would be started, and stop.")
@output_options
def command(model: str, context: int | None, users: int, port: int, dry_run: bool, output: Output) -> None:
    """Start an engine and wait until it really answers.

    The engine outlives this terminal; Ctrl-C detaches, it does not stop it.
    """
    from upright.cli.pages import deployment_page, objections_page, recipe_page
    from upright.host import LocalHost
    from upright.line import prepare, register, start
    from upright.records.plan import Goal

    prepared = prepare(model, Goal(context_tokens=context, users=users), LocalHost(), port=port, tell=say)
    if prepared.recipe is None:
        output.answer(prepared.plan, lambda console: objections_page(console, prepared.plan))
        output.next("plan", model, *given("context", "users"))
        output.no()
        return
    if dry_run:
        recipe = prepared.recipe
        output.answer(recipe, lambda console: recipe_page(console, recipe))
        output.next("up", model, *given("context", "users", "port"))
        return
    directory = register(prepared)
    try:
        deployment = start(prepared, directory, tell=say)
    except KeyboardInterrupt:
        say(f"detached: {directory.name} goes on starting")
        output.next("ps")
        return
    output.answer(deployment, lambda console: deployment_page(console, deployment))
    output.next("prove", deployment.name)
