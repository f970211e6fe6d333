"""`upright up`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from upright.app.cli.launch_options import LAUNCH_OPTIONS, detach, engine_port, launch_options, launch_target_of
from upright.app.cli.options import Number, model_argument, typed_words
from upright.app.cli.output import Output, output_options, page_width, say

if TYPE_CHECKING:
    from upright.facts.store import DeploymentDir
    from upright.flows.line import LaunchTarget, Prepared

_AGAIN = (*LAUNCH_OPTIONS, "restarts", "hung_after")


@click.command()
@model_argument
@launch_options
@click.option(
    "--restarts",
    type=click.IntRange(0),
    default=2,
    show_default=True,
    help="How often an engine that had been ready is started again.",
)
@click.option(
    "--hung-after",
    type=Number(min=1),
    default=120,
    show_default=True,
    help="Seconds without an answer after which it hangs.",
)
@click.option("--heal", is_flag=True, help="If it falls, mend what can be mended and start again.")
@click.option("--dry-run", is_flag=True, help="Show the command that would be started, and stop.")
@output_options
def command(model: str, heal: bool, dry_run: bool, output: Output, **wanted: Any) -> None:
    """Start an engine and wait until it really answers.

    MODEL is a file, a folder or a repository that is on this disk, a plan, or a recipe. The engine outlives this
    terminal; Ctrl-C detaches, it does not stop it.
    """
    from upright.app.cli.plan_options import goal_of
    from upright.app.pages.deployment_pages import deployment_page, objections_page, recipe_page
    from upright.app.pages.start_progress import start_progress_bar
    from upright.facts.records.deployment import Keeping
    from upright.facts.store import forget_refusal
    from upright.flows.line import register, start
    from upright.flows.line.preparing import prepare_named
    from upright.serving.launch.runtimes import command_preview

    on = launch_target_of(wanted, Keeping(restarts=wanted["restarts"], hung_seconds=wanted["hung_after"]))
    if heal and on.machine:
        raise click.UsageError("--heal mends what is on this machine; without --host")
    prepared = prepare_named(model, goal_of(wanted), on, port=engine_port(wanted), tell=say, noted=not dry_run)
    recipe = prepared.recipe
    if recipe is None:
        output.answer(prepared.plan, lambda console: objections_page(console, prepared.plan))
        output.next("plan", model, *typed_words("context", "users", "engine", "engine_version", "place", "host_cache"))
        output.no()
        return
    if dry_run:
        starts = command_preview(recipe)
        output.answer(recipe, lambda console: recipe_page(console, recipe, starts))
        output.next("up", model, *typed_words(*_AGAIN))
        return
    directory = register(prepared, on, healing=heal)
    forget_refusal()
    if heal:
        _heal(prepared, directory, on, output)
        return
    try:
        with start_progress_bar(prepared.model.tensor_bytes) as on_change:
            deployment = start(prepared, directory, tell=say, on=on, on_change=on_change)
    except KeyboardInterrupt:
        detach(directory, output)
        return
    output.answer(deployment, lambda console: deployment_page(console, deployment))
    output.next("prove", deployment.name)


def _heal(prepared: Prepared, directory: DeploymentDir, on: LaunchTarget, output: Output) -> None:
    """Start it, mend it, and tell the way."""
    from upright.app.pages.diagnosis_page import attempts_page, diagnosis_page
    from upright.flows.line import heal_up

    healed = heal_up(prepared, directory, tell=say, on=on)
    output.answer(healed.way)
    output.show(attempts_page(healed.way, page_width()))
    if healed.deployment is not None:
        output.show(f"\nit answers at {healed.deployment.base_url}/v1")
        output.next("prove", directory.name)
        return
    if healed.diagnosis is not None:
        output.show("\n" + diagnosis_page(healed.diagnosis, page_width()))
    output.next("diagnose", directory.name)
    output.no()
