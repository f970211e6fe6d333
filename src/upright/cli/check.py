"""`upright check`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from upright.cli.options import given, said
from upright.cli.output import Output, output_options
from upright.cli.planned import SERVING, WISHES, prepared, recipe_options, refuse

if TYPE_CHECKING:
    from rich.console import Console

    from upright.records.check import RecipeCheck


@click.command()
@click.argument("model", metavar="MODEL|RECIPE", callback=said)
@recipe_options
@click.option("--with", "program", help="The engine to ask: an interpreter or venv that has it, or its own program.")
@output_options
def command(output: Output, model: str, program: str | None, **wanted: Any) -> None:
    """Let the engine's own parser judge the command, before anything starts."""
    from upright.checking import check
    from upright.requesting.asking import recipe_of_file

    recipe = recipe_of_file(model)
    if recipe is None:
        made = prepared(model, **wanted)
        if made.recipe is None:
            refuse(output, model, made)
            return
        recipe = made.recipe
    recipe_check = check(recipe, program=program)
    output.answer(recipe_check, lambda console: _page(console, recipe_check))
    typed_options = given(*WISHES, *SERVING)
    if recipe_check.refusals:
        output.next("render", model, *typed_options)
        output.no()
    output.next("render", model, *typed_options)


def _page(console: Console, found: RecipeCheck) -> None:
    colours = {"accepted": "green", "refused": "red", "unverified": "yellow"}
    attribution = "judged by" if found.verdict == "unverified" else "by"
    from rich.text import Text

    from upright.foreign import LONGEST_NAME, on_one_line
    from upright.terminal.lines import line

    verdict = Text.assemble((found.verdict, colours[found.verdict]), f", {attribution} {found.judged_by}")
    console.print(verdict, soft_wrap=True)
    console.print(f"  {found.settings} settings, {len(found.refusals)} refused")
    for refusal in found.refusals:
        console.print(f"  {on_one_line(refusal.setting, LONGEST_NAME)}", style="red", markup=False)
        line(console, refusal.message, 4)
    for remark in found.remarks:
        line(console, remark, 2)
