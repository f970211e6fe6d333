"""`upright run`."""

from __future__ import annotations

from typing import Any

import click

from upright.cli.options import given, model_argument, to_option
from upright.cli.output import Output, output_options, say
from upright.cli.starting import STARTING, ask_before_fetching, engine_port, on_of, starting_options

_ASKED_BEYOND_BYTES = 10 * 10**9


@click.command()
@model_argument
@starting_options
@to_option
@click.option("--yes", is_flag=True, help="Download whatever the weights take, without asking.")
@click.option("--keep", is_flag=True, help="Leave the engine running afterwards.")
@output_options
def command(model: str, to: str, yes: bool, keep: bool, output: Output, **wanted: Any) -> None:
    """Do all of it: probe, read, plan, start, prove, report.

    Weights that are not on this disk are fetched once the plan says yes; beyond 10 GB it asks first. With --host they
    must be on both machines already. The engine is stopped at the end unless --keep is given; its records and the page
    stay.
    """
    from upright.cli.planned import goal_of
    from upright.fetching import Arriving
    from upright.line import run
    from upright.showing.fetch_progress import showing
    from upright.showing.pages import objections_page, run_page

    on, goal = on_of(wanted), goal_of(wanted)
    with showing(model, alone=False) as on_progress:
        weights = Arriving(
            lambda need: ask_before_fetching(need, yes=yes, beyond_bytes=_ASKED_BEYOND_BYTES), on_progress
        )
        done = run(model, goal, on, port=engine_port(wanted), to=to, keep=keep, tell=say, weights=weights)
    if done.deployment is None:
        output.answer(done.prepared.plan, lambda console: objections_page(console, done.prepared.plan))
        output.next("plan", model, *given("context", "users"))
        output.no()
        return
    assert done.evidence is not None
    output.answer(
        {
            "stands": done.stands,
            "deployment": done.deployment.to_dict(),
            "evidence": done.evidence.to_dict(),
            "page": str(done.page),
        },
        lambda console: run_page(console, done),
    )
    again = ("up", model, *given(*STARTING))
    output.next(*(("connect", done.deployment.name) if keep else again))
    if not done.stands:
        output.no()
