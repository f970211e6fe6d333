"""`upright plan`: what fits, for a model, a box and a goal."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from upright.app.cli.options import Number, goal_options, model_argument, typed_words
from upright.app.cli.output import Output, note, output_options, page_width
from upright.app.cli.plan_options import (
    FOR_ANY_MODEL,
    GOAL,
    GOAL_ONLY,
    MACHINE,
    PLAN_OPTIONS,
    RAM_UNKNOWN,
    box_options,
    engine_options,
    floor_options,
    goal_of,
    named_box,
    node_options,
    use_option,
)

if TYPE_CHECKING:
    from upright.facts.records.plan import Nearest
    from upright.planning.requests.plan_request import PlannedRequest

SHOWN = 6


@click.command(name="plan")
@model_argument
@box_options
@goal_options
@node_options
@use_option
@engine_options
@click.option(
    "--acceptance", type=Number(min=0), help="Share of its guesses that are accepted on your load, such as 0.4."
)
@floor_options
@click.option("--agents", type=click.IntRange(1), help="Conversations to keep warm; --users decode at the same time.")
@click.option("--why", is_flag=True, help="Every term of memory and of time.")
@click.option("--all", "everything", is_flag=True, help="Every way that was planned, best first.")
@click.option(
    "--kernels",
    type=click.Path(path_type=Path, exists=True),
    help="What `upright tools kernels check -o FILE` found out.",
)
@click.option("--no-measured", is_flag=True, help="Without what earlier starts on this box measured.")
@output_options
def command(output: Output, model: str, **wanted: Any) -> None:
    """Say whether the model fits, with how much context."""
    from dataclasses import replace

    from upright.app.pages.index_evidence_lines import index_evidence_lines
    from upright.app.pages.plan_page import plan_page
    from upright.planning.requests.plan_arguments import kernel_verdicts, make_plan_request
    from upright.planning.requests.plan_request import plan_request, ram_wanted, ram_words

    measured = () if wanted["no_measured"] else None
    verdicts = kernel_verdicts(wanted["kernels"])
    request = make_plan_request(
        model,
        named_box(wanted),
        goal_of(wanted),
        measured=measured,
        verdicts=verdicts,
        host_cache_gib=wanted["host_cache"],
    )
    planned = plan_request(replace(request, agents=wanted["agents"]))
    plans, best, choice = planned.plans, planned.best, planned.request.choice
    placed = planned.placements()
    if output.as_json:
        Output(True, None).answer(planned.answer(plans[:SHOWN], placed))
    if output.path is not None:
        Output(False, output.path).answer(best)  # a file is the best plan's record, which `render` takes
    offers, instead, unasked = planned.offers(), planned.instead(), planned.ram_unknown
    own = planned.of_own_type()
    details = {"own": own, "why": wanted["why"], "everything": wanted["everything"], "ram_unknown": unasked}
    output.show(plan_page(plans, choice, page_width(), instead, placed=placed, **details))
    for sentence in index_evidence_lines((model, best.model), planned.request.box):
        note(sentence)
    if unasked:
        note(f"{RAM_UNKNOWN} {ram_words(choice.model)}")
    if best.fits:
        named = model if best.model == choice.model.name else planned.artifact.source
        if wanted["box"] is None:
            output.next(
                "up", named, *typed_words("context", "users", "engine", "engine_version", "place", "host_cache")
            )
        else:
            context = () if wanted["context"] or not typed_words("use") else ("--context", str(best.context_tokens))
            output.next(
                "render", named, *typed_words(*(name for name in PLAN_OPTIONS if name not in GOAL_ONLY)), *context
            )
        return
    if unasked:
        output.next("plan", model, *typed_words(*GOAL, "host_cache", "box", "host_bandwidth"), *ram_wanted(best))
    elif remedies := planned.remedies():
        told = {remedy.split()[0].lstrip("-").replace("-", "_") for remedy in remedies}
        output.next(
            "plan",
            model,
            *typed_words(*(name for name in PLAN_OPTIONS if name not in told)),
            *" ".join(remedies).split(),
        )
    elif first := [*([own] if own else ()), *instead]:
        output.next("plan", first[0].model, *typed_words(*MACHINE, *FOR_ANY_MODEL))
    elif offers:
        output.next("plan", offers[0].artifact or model, *_kept(offers[0], planned), *offers[0].options)
    else:
        output.next("recommend", *typed_words(*MACHINE))
    output.no()


def _kept(offer: Nearest, planned: PlannedRequest) -> list[str]:
    """What the person typed and the offer does not change."""
    dropped = planned.dropped_by(offer)
    wishes = (name for name, field in GOAL.items() if field not in dropped)
    machine = (name for name in MACHINE if name != "host_memory" or "--ram" not in offer.options)
    names = (*wishes, "host_cache", *machine, "kernels", "no_measured")
    return typed_words(*(name for name in names if f"--{name.replace('_', '-')}" not in offer.options))
