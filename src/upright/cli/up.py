"""`upright up`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from upright.cli.options import Number, given, model_argument
from upright.cli.output import Output, output_options, page_width, say
from upright.cli.starting import STARTING, detach, engine_port, on_of, starting_options

if TYPE_CHECKING:
    from upright.line import On, Prepared
    from upright.records.recipe import Recipe
    from upright.store import DeploymentDir

_AGAIN = (*STARTING, "restarts", "hung_after")


@click.command()
@model_argument
@starting_options
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
    from upright.line import register, start
    from upright.records.deployment import Keeping
    from upright.showing.pages import deployment_page, objections_page, recipe_page
    from upright.showing.start_progress import shown
    from upright.store import forget_refusal

    on = on_of(wanted, Keeping(restarts=wanted["restarts"], hung_seconds=wanted["hung_after"]))
    if heal and on.machine:
        raise click.UsageError("--heal mends what is on this machine; without --host")
    prepared = _noted(model, on, wanted, kept=not dry_run)
    recipe = prepared.recipe
    if recipe is None:
        output.answer(prepared.plan, lambda console: objections_page(console, prepared.plan))
        output.next("plan", model, *given("context", "users", "engine", "engine_version"))
        output.no()
        return
    if dry_run:
        starts = _command(recipe)
        output.answer(recipe, lambda console: recipe_page(console, recipe, starts))
        output.next("up", model, *given(*_AGAIN))
        return
    directory = register(prepared, on, healing=heal)
    forget_refusal()
    if heal:
        _heal(prepared, directory, on, output)
        return
    try:
        with shown(prepared.model.tensor_bytes) as on_change:
            deployment = start(prepared, directory, tell=say, on=on, on_change=on_change)
    except KeyboardInterrupt:
        detach(directory, output)
        return
    output.answer(deployment, lambda console: deployment_page(console, deployment))
    output.next("prove", deployment.name)


def _command(recipe: Recipe) -> tuple[str, ...] | None:
    """What a container's runtime would be told; where the key and the home are, only the launcher knows."""
    from upright.launching.runtimes import RUNTIMES, Site

    if recipe.runtime == "process":
        return None
    site = Site(key_file="KEY_FILE", key_config="KEY_CONFIG", home="~", user="UID:GID")
    return RUNTIMES[recipe.runtime].command(recipe, site, container="NAME", label="upright.deployment=NAME").argv


def _noted(model: str, on: On, wanted: dict[str, Any], *, kept: bool) -> Prepared:
    """As prepared; what is refused is what a bare `diagnose` talks about."""
    from upright.errors import UprightError
    from upright.store import note_refusal

    try:
        prepared = _prepared(model, on, wanted)
    except UprightError as error:
        if kept:
            note_refusal(model, error.message, error.hint)
        raise
    if kept and prepared.recipe is None and prepared.plan.objections:
        first = prepared.plan.objections[0]
        note_refusal(model, f"{first.code}: {first.message}", first.remedy)
    return prepared


def _prepared(model: str, on: On, wanted: dict[str, Any]) -> Prepared:
    from upright.cli.planned import goal_of
    from upright.line import prepare, prepare_recipe
    from upright.requesting.asking import plan_of_file, recipe_of_file

    host = on.host()
    if (recipe := recipe_of_file(model)) is not None:
        return prepare_recipe(recipe, host, tell=say, on=on)
    goal = goal_of(wanted)
    if (of_plan := plan_of_file(model)) is not None:
        model, goal = of_plan.model, of_plan.goal_with(goal)
    return prepare(model, goal, host, port=engine_port(wanted), tell=say, on=on)


def _heal(prepared: Prepared, directory: DeploymentDir, on: On, output: Output) -> None:
    """Start it, mend it, and tell the way."""
    from upright.line import heal_up
    from upright.showing.diagnosis_page import attempts_page, diagnosis_page

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
