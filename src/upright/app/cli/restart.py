"""`upright restart`."""

from __future__ import annotations

from pathlib import Path

import click

from upright.app.cli.options import deployment_argument
from upright.app.cli.output import Output, output_options, say


@click.command()
@deployment_argument
@click.option(
    "--recipe",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Start with this recipe instead; the old one is kept as recipe-N.json.",
)
@click.option("--dry-run", is_flag=True, help="Show the command that would be started, and stop nothing.")
@output_options
def command(deployment: str | None, recipe: Path | None, dry_run: bool, output: Output) -> None:
    """Stop a deployment and start it again."""
    from upright.app.cli.launch_options import detach
    from upright.app.pages.deployment_pages import deployment_page, recipe_page
    from upright.app.pages.start_progress import start_progress_bar
    from upright.facts import store
    from upright.facts.records.loading import load
    from upright.facts.records.recipe import Recipe
    from upright.flows.line import measure_residuals
    from upright.serving.launch import restart

    directory = store.running_or_last(deployment)
    other = load(recipe, Recipe) if recipe is not None else None
    if dry_run:
        wanted = other or directory.read(Recipe)
        output.answer(wanted, lambda console: recipe_page(console, wanted))
        output.next("restart", directory.name, *(("--recipe", str(recipe)) if recipe else ()))
        return
    try:
        with start_progress_bar() as on_change:
            state = restart(directory, other, on_change=on_change)
        measure_residuals(directory, tell=say)
    except KeyboardInterrupt:
        detach(directory, output)
        return
    output.answer(state, lambda console: deployment_page(console, state))
    output.next("prove", state.name)
