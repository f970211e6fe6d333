"""`upright recommend`: which models to run on a box."""

from __future__ import annotations

from typing import Any

import click

from upright.app.cli.options import engine_option, goal_options, typed_words
from upright.app.cli.output import Output, note, output_options, page_width
from upright.app.cli.plan_options import (
    FOR_ANY_MODEL,
    MACHINE,
    box_options,
    floor_options,
    goal_of,
    named_box,
    node_options,
    use_option,
)

_ASKED = (*FOR_ANY_MODEL, "engine", "nodes", "link")


@click.command(name="recommend")
@box_options
@goal_options
@node_options
@engine_option
@use_option
@floor_options
@click.option("--all", "everything", is_flag=True, help="Every model that fits; takes some seconds.")
@click.option("--why", is_flag=True, help="Where each score comes from, and why not the other models.")
@output_options
def command(output: Output, **wanted: Any) -> None:
    """Say which models to run on a box, best first, and why.

    Every model, artifact and engine of the catalogue, placed on the box: published quality first, then what holds.
    """
    from upright.app.pages.index_evidence_lines import index_evidence_lines
    from upright.app.pages.recommend_page import recommend_page
    from upright.planning.recommending.recommendation import SHOWN
    from upright.planning.requests.library import recommend
    from upright.planning.requests.plan_arguments import box_named, measurements
    from upright.planning.requests.several_boxes import for_boxes_named

    most = None if wanted["everything"] else SHOWN
    box, (_, goal) = box_named(named_box(wanted)), for_boxes_named(wanted["box"], goal_of(wanted))
    recommendation = recommend(box, goal, most=most, measured=measurements())
    if output.wants_record:
        output.answer(recommendation)
    output.show(recommend_page(recommendation, page_width(), why=wanted["why"]))
    for sentence in index_evidence_lines((offer.model for offer in recommendation.offers), box):
        note(sentence)
    if recommendation.offers:
        output.next("plan", recommendation.offers[0].source, *typed_words(*_ASKED, *MACHINE))
        return
    if typed_words(*_ASKED):
        output.next("recommend", *typed_words(*MACHINE))
    output.no()
