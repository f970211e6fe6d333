"""`upright compare`: models, boxes and engines in one table, and as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from upright.app.cli.options import BANDWIDTH, ENGINE, MEMORY, Number, goal_options, typed_words
from upright.app.cli.output import Output, output_options, page_width
from upright.app.cli.plan_options import goal_of, node_options, place_option, use_option

FOR_ALL = ("context", "users", "use", "place", "nodes", "link")
"""Wishes of every column."""


@click.command(name="compare")
@click.argument("models", metavar="MODEL...", nargs=-1, required=True)
@click.option("--box", "--gpu", "boxes", multiple=True, help="As for `plan`; several times.  [default: this machine]")
@click.option("--ram", "host_memory", type=MEMORY, help="System RAM, where a box does not say: 512GB.")
@click.option("--host-bandwidth", type=BANDWIDTH, help="Its bandwidth, as for `plan`: 8xDDR5-6400.")
@goal_options
@node_options
@use_option
@place_option
@click.option("--engine", "engines", type=ENGINE, multiple=True, help="Only this engine; several times.")
@click.option("--price", "prices", type=Number(min=0), multiple=True, help="Price of each box, in the order of --box.")
@click.option("--rent", "rents", type=Number(min=0), multiple=True, help="Rent of each box an hour, in that order.")
@click.option("--watt", "watts", type=Number(min=0), multiple=True, help="Watts of each at full load, in that order.")
@click.option("--kwh", type=Number(min=0), help="Price of a kilowatt hour.")
@click.option("--api-price", type=Number(min=0), help="Price of a million output tokens of an API, to break even with.")
@click.option("--svg", type=click.Path(path_type=Path, dir_okay=False), help="Also draw it here.")
@output_options
def command(output: Output, models: Sequence[str], **wanted: Any) -> None:
    """Put models, boxes or engines side by side: what each step up buys, and costs.

    \b
    upright compare kimi-k2.6 --box 4x-rtx-pro-6000-server --box hgx-b200

    Prices are yours, in any currency: none is built in.
    """
    from upright.app.pages.compare_page import compare_page
    from upright.app.pages.compare_picture import draw_picture
    from upright.planning.requests.compare_arguments import CompareArguments, prices_of_boxes

    goal = goal_of({name: wanted[name] for name in FOR_ALL})
    boxes, engines = wanted["boxes"] or (None,), wanted["engines"] or (None,)
    asked = CompareArguments(models, boxes, engines, wanted["host_memory"], wanted["host_bandwidth"], goal)
    typed = (wanted[name] for name in ("prices", "rents", "watts"))
    prices = prices_of_boxes(len(boxes), *typed, kilowatt_hour=wanted["kwh"], api_million=wanted["api_price"])
    comparison = asked.comparison(prices)
    if output.wants_record:
        output.answer(comparison)
    output.show(compare_page(comparison, page_width()))
    if wanted["svg"] is not None:
        draw_picture(comparison, wanted["svg"])
    kept = ("host_memory", "host_bandwidth")
    if (best := asked.best(comparison)) is None:
        output.next("recommend", *typed_words(*(name for name in FOR_ALL if name != "place"), *kept))
        output.no()
    else:
        output.next("plan", *asked.words_of(comparison, best), *typed_words(*FOR_ALL, *kept))
