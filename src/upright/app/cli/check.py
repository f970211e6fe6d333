"""`upright check`."""

from __future__ import annotations

from typing import Any

import click

from upright.app.cli.options import refuse_empty, typed_words
from upright.app.cli.output import Output, output_options
from upright.app.cli.plan_options import PLAN_OPTIONS, SERVING, answer_objections, prepare_from_options, recipe_options


@click.command()
@click.argument("model", metavar="MODEL|RECIPE", callback=refuse_empty)
@recipe_options
@click.option("--with", "program", help="The engine to ask: an interpreter or venv that has it, or its own program.")
@output_options
def command(output: Output, model: str, program: str | None, **wanted: Any) -> None:
    """Let the engine's own parser judge the command, before anything starts."""
    from upright.app.pages.recipe_check_page import recipe_check_page
    from upright.planning.requests.plan_arguments import recipe_of_file
    from upright.serving.check import check

    recipe = recipe_of_file(model)
    if recipe is None:
        made = prepare_from_options(model, **wanted)
        if made.recipe is None:
            answer_objections(output, model, made)
            return
        recipe = made.recipe
    recipe_check = check(recipe, program=program)
    output.answer(recipe_check, lambda console: recipe_check_page(console, recipe_check))
    typed_options = typed_words(*PLAN_OPTIONS, *SERVING)
    if recipe_check.refusals:
        output.next("render", model, *typed_options)
        output.no()
    output.next("render", model, *typed_options)
