"""`upright field-test`."""

from __future__ import annotations

from typing import Any

import click

from upright.cli.options import Measure, Number, Seconds, given
from upright.cli.output import Output, output_options, page_width


@click.command(name="field-test")
@click.option("--budget", type=Seconds(), default="60m", show_default=True, help="Time for all of it.")
@click.option("--spend-limit", type=Number(min=0, min_open=True), help="Money for all of it; needs --price-per-hour.")
@click.option("--price-per-hour", type=Number(min=0, min_open=True), help="What an hour of the box costs.")
@click.option("--model", "models", multiple=True, help="Try this, instead of models of the catalogue.  [repeatable]")
@click.option("--download-rate", type=Measure("bandwidth"), default="0.5GB/s", show_default=True,
              help="What the box fetches weights at, until it is measured.")  # fmt: skip
@click.option("--box", help="Schedule for this box, with --dry-run: a name, a file, a recording or ssh:HOST.")
@click.option("--dry-run", is_flag=True, help="Print the schedule, and stop.")
@output_options
def command(output: Output, box: str | None, dry_run: bool, **wanted: Any) -> None:
    """Spend the first hour on a box: what Upright claims, tried; what it was wrong about.

    A schedule within time and money: the probe, kernels that were only compiled, the smallest real model, the largest
    that fits, then what the planner knows least.
    """
    from upright.errors import UsageError
    from upright.fieldwork.scheduling import FieldRequest, schedule_on
    from upright.requesting.asking import NamedBox, box_named
    from upright.showing.field_page import schedule_page
    from upright.units import GB

    if box is not None and not dry_run:
        raise UsageError("a field test runs on this machine", hint="look at another box with --dry-run")
    if not dry_run:
        raise UsageError("so far only the schedule is made", hint="upright field-test --dry-run")
    request = FieldRequest(
        wanted["budget"], wanted["spend_limit"], wanted["price_per_hour"], wanted["models"],
        wanted["download_rate"] * GB,
    )  # fmt: skip
    test = schedule_on(box_named(NamedBox(box=box)), request, here=box is None)
    output.answer(test)
    output.show(schedule_page(test, page_width()))
    output.next("field-test", *given("budget", "spend_limit", "price_per_hour", "models"))
