"""`upright render`."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from upright.app.cli.options import refuse_empty, typed_words
from upright.app.cli.output import Output, note, say
from upright.app.cli.plan_options import PLAN_OPTIONS, SERVING, answer_objections, prepare_from_options, recipe_options

if TYPE_CHECKING:
    from rich.console import Console

    from upright.facts.records.recipe import Recipe

TO = ("command", "table", "shell", "docker", "podman", "compose", "quadlet", "systemd", "kubernetes", "llama-swap")
ON_STDOUT = ("command", "table")
BARE = ("shell", "systemd", "llama-swap")
"""Targets that start the engine of the machine, not an image's."""


@click.command()
@click.argument("models", metavar="MODEL|PLAN|RECIPE...", nargs=-1, required=True, callback=refuse_empty)
@recipe_options
@click.option("--leader", default="node-0", show_default=True, help="Where the other boxes reach the first one.")
@click.option(
    "--to",
    type=click.Choice(TO),
    default="command",
    show_default=True,
    metavar="TARGET",
    help=f"What to write: {', '.join(TO[:-1])} or {TO[-1]}.",
)
@click.option("--explain", is_flag=True, help="A table of every setting with its reason and source.")
@click.option("--json", "as_json", is_flag=True, help="Print the recipe as JSON on stdout.")
@click.option(
    "-o",
    "--output",
    "path",
    type=click.Path(path_type=Path),
    help="Write it into this folder; without --to the recipe's JSON into this file.",
)
def command(models: tuple[str, ...], to: str, explain: bool, as_json: bool, path: Path | None, **wanted: Any) -> None:
    """Write the exact command, with a reason for every flag.

    Several models at once are for --to llama-swap, which loads what is asked for: what fits at once stays, the rest is
    swapped.
    """
    from upright.base.errors import UsageError
    from upright.planning.rendering.targets import rendered_files
    from upright.planning.requests.plan_arguments import recipe_of_file

    if to == "llama-swap":
        _swapped(models, as_json, path, wanted)
        return
    if len(models) > 1:
        raise UsageError(f"{len(models)} models at once are for llama-swap alone", hint="--to llama-swap")
    model = models[0]
    to = "table" if explain and to == "command" else to
    _refuse_bare(to, wanted["image"])
    output = Output(as_json, path if to in ON_STDOUT else None)
    recipe = recipe_of_file(model)
    followers: tuple[Recipe, ...] = ()
    of_a_class = False
    if recipe is None:
        made = prepare_from_options(model, **wanted)
        if made.recipe is None:
            answer_objections(output, model, made)
            return
        recipe, followers, of_a_class = made.recipe, made.followers, made.box.basis == "catalog"
    _say_notes(recipe, to, of_a_class=of_a_class)
    if to in ON_STDOUT or as_json:
        output.answer(recipe, lambda console: _page(console, recipe) if to == "table" else None)
    if to == "command" and not as_json:
        from upright.planning.rendering.command import command_text

        click.echo("".join(command_text(one) for one in (recipe, *followers)), nl=False)
    if to not in ON_STDOUT:
        for name, text in rendered_files([recipe, *followers], to).items():
            if path is not None:
                _write(path, name, to, text)
            elif not as_json:
                click.echo(text, nl=False)
    output.next("check", model, *typed_words(*PLAN_OPTIONS, *SERVING))


def _swapped(models: tuple[str, ...], as_json: bool, path: Path | None, wanted: dict[str, Any]) -> None:
    """Each planned as if it were alone; then which of them fit beside each other."""
    from upright.planning.rendering.llama_swap import FILE
    from upright.planning.requests.swapping import swapped_models

    _refuse_bare("llama-swap", wanted["image"])
    output, prepared = Output(as_json, None), []
    for model in models:
        made = prepare_from_options(model, **wanted)
        if made.recipe is None:
            answer_objections(output, model, made)
            return
        prepared.append((made.plan, made.recipe))
    swapped = swapped_models(prepared)
    if as_json:
        output.answer({"recipes": [recipe.to_dict() for recipe in swapped.recipes], "together": swapped.together})
    if path is not None:
        _write(path, FILE, "llama-swap", swapped.config)
    elif not as_json:
        click.echo(swapped.config, nl=False)
    output.next("check", models[0], *typed_words(*PLAN_OPTIONS, *SERVING))


def _page(console: Console, recipe: Recipe) -> None:
    from upright.app.pages.deployment_pages import recipe_page

    recipe_page(console, recipe)


def _refuse_bare(to: str, image: str | None) -> None:
    from upright.base.errors import UsageError

    if image is not None and to in BARE:
        raise UsageError(f"--to {to} starts the engine of the machine, not {image}", hint="--to docker, or --to podman")


def _say_notes(recipe: Recipe, to: str, *, of_a_class: bool) -> None:
    if not recipe.installed and recipe.runtime == "process" and to in (*ON_STDOUT, *BARE):
        from upright.planning.requests.engine_installs import install_hint

        looked = "was not looked for: the box is a class of machine" if of_a_class else "was not found on this box"
        note(f"{recipe.program} {looked}; {install_hint(recipe)}")
    for text in recipe.notes:
        note(text)


def _write(folder: Path, name: str, to: str, text: str) -> None:
    from upright.facts.store import write_inside
    from upright.planning.rendering.targets import TARGETS

    file = folder / name
    write_inside(file, text, folder)
    if to in TARGETS and TARGETS[to].executable:
        file.chmod(0o755)
    say(f"wrote {shlex.quote(str(file))}")
