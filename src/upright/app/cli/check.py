"""`upright check`."""

from __future__ import annotations

from typing import Any

import click

from upright.app.cli.launch_options import LAUNCH_OPTIONS
from upright.app.cli.options import refuse_empty, typed_words, was_typed
from upright.app.cli.output import Output, note, output_options
from upright.app.cli.plan_options import (
    MACHINE,
    PLAN_OPTIONS,
    SERVING,
    answer_objections,
    named_box,
    prepare_from_options,
    recipe_options,
)


@click.command()
@click.argument("model", metavar="MODEL|RECIPE", callback=refuse_empty)
@recipe_options
@click.option("--with", "program", help="The engine to ask: an interpreter or venv that has it, or its own program.")
@click.option("--deep", is_flag=True, help="Ask the engine's own start code too, on a GPU that need not be here.")
@output_options
def command(output: Output, model: str, program: str | None, deep: bool, **wanted: Any) -> None:
    """Let the engine's own parser judge the command, before anything starts.

    With --deep its start code runs as far as its cache, in the engine's own environment, on stand-ins for the driver:
    no weights, no network, nothing written. It accepts, refuses in its own words, or it is not known. An acceptance
    proves the start and nothing behind it: no kernel is launched.
    """
    from upright.app.pages.recipe_check_page import recipe_check_page
    from upright.planning.requests.plan_arguments import box_named, recipe_of_file
    from upright.serving.check import DeepCheck, check

    recipe = given = recipe_of_file(model)
    asked = DeepCheck(box=box_named(named_box(wanted)) if deep and was_typed("box") else None)
    if recipe is None:
        made = prepare_from_options(model, **wanted)
        if made.recipe is None:
            answer_objections(output, model, made)
            return
        recipe, asked = made.recipe, DeepCheck(made.model, made.box, made.plan)
    recipe_check = check(recipe, program=program, deep=asked if deep else None)
    output.answer(recipe_check, lambda console: recipe_check_page(console, recipe_check))
    if recipe_check.refusals:
        if flag := recipe_check.refusals[0].setting.partition(" ")[0].partition("=")[0]:
            output.next("explain", flag)
        output.no()
    if given is None:
        _start_it(output, model, wanted["box"])


def _start_it(output: Output, model: str, box: str | None) -> None:
    """With `run`, where it takes what was wished; else what `render` printed stands for itself."""
    wished = [name for name in (*PLAN_OPTIONS, *SERVING) if name not in MACHINE and was_typed(name)]
    if set(wished) <= set(LAUNCH_OPTIONS):
        there = ["--host", box] if box is not None and box.startswith("ssh:") else []
        if box is not None and not there:
            note("what comes next is typed on that box itself")
        output.next("run", model, *typed_words(*wished), *there)
