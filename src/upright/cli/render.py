"""`upright render`."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from upright.cli.options import given, said
from upright.cli.output import Output, note, say
from upright.cli.planned import SERVING, WISHES, prepared, recipe_options

if TYPE_CHECKING:
    from upright.records.recipe import Recipe

TO = ("table", "shell", "docker", "podman", "compose", "quadlet", "systemd", "kubernetes")


@click.command()
@click.argument("model", metavar="MODEL|PLAN|RECIPE", callback=said)
@recipe_options
@click.option("--leader", default="node-0", show_default=True, help="Where the other boxes reach the first one.")
@click.option("--to", type=click.Choice(TO), default="table", show_default=True, help="What to write.")
@click.option("--json", "as_json", is_flag=True, help="Print the recipe as JSON on stdout.")
@click.option(
    "-o",
    "--output",
    "path",
    type=click.Path(path_type=Path),
    help="Write it into this folder; with --to table the recipe's JSON into this file.",
)
def command(model: str, to: str, as_json: bool, path: Path | None, **wanted: Any) -> None:
    """Write the exact command, with a reason for every flag."""
    from upright.rendering.targets import written
    from upright.requesting.asking import recipe_of_file
    from upright.showing.pages import objections_page, recipe_page

    output = Output(as_json, path if to == "table" else None)
    recipe = recipe_of_file(model)
    followers: tuple[Recipe, ...] = ()
    if recipe is None:
        made = prepared(model, **wanted)
        if made.recipe is None:
            output.answer(made.plan, lambda console: objections_page(console, made.plan))
            output.next("plan", model, *given(*WISHES))
            output.no()
            return
        recipe, followers = made.recipe, made.followers
    _say_notes(recipe, to)
    if to == "table" or as_json:
        output.answer(recipe, lambda console: recipe_page(console, recipe))
    if to != "table":
        for name, text in written([recipe, *followers], to).items():
            if path is not None:
                _write(path / name, to, text)
            elif not as_json:
                click.echo(text, nl=False)
    output.next("check", model, *given(*WISHES, *SERVING))


def _say_notes(recipe: Recipe, to: str) -> None:
    if not recipe.installed and to in ("table", "shell", "systemd"):
        from upright.engines import engine_named

        note(f"{recipe.program} was not found on this box: {engine_named(recipe.engine).where_from}")
    for text in recipe.notes:
        note(text)


def _write(file: Path, to: str, text: str) -> None:
    from upright.errors import UsageError
    from upright.rendering.targets import target_named

    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        if target_named(to).executable:
            file.chmod(0o755)
    except OSError as error:
        raise UsageError(f"cannot write {file}: {error.strerror}") from None
    say(f"wrote {shlex.quote(str(file))}")
