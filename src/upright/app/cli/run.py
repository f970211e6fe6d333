"""`upright run`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from upright.app.cli.launch_options import (
    LAUNCH_OPTIONS,
    ask_before_fetching,
    engine_port,
    launch_options,
    launch_target_of,
)
from upright.app.cli.options import model_argument, to_option, typed_words
from upright.app.cli.output import Output, output_options, say

if TYPE_CHECKING:
    from upright.flows.line import LineRun

_ASKED_BEYOND_BYTES = 10 * 10**9


@click.command()
@model_argument
@launch_options
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
    from upright.app.cli.plan_options import goal_of
    from upright.app.pages.fetch_progress import fetch_progress_bar
    from upright.flows.line import run
    from upright.serving.fetch import BackgroundFetch

    on, goal = launch_target_of(wanted), goal_of(wanted)
    with fetch_progress_bar(model, alone=False) as on_progress:
        weights = BackgroundFetch(
            lambda need: ask_before_fetching(need, yes=yes, beyond_bytes=_ASKED_BEYOND_BYTES), on_progress
        )
        done = run(model, goal, on, port=engine_port(wanted), to=to, keep=keep, tell=say, weights=weights)
    answer_run(done, output)
    if done.stands and done.deployment is not None:
        output.next(*(("connect", done.deployment.name) if keep else ("up", model, *typed_words(*LAUNCH_OPTIONS))))
        return
    if done.deployment is None:
        output.next("plan", model, *typed_words("context", "users"))
    else:
        output.next("diagnose", done.deployment.name)
    output.no()


def answer_run(done: LineRun, output: Output) -> None:
    """What was made, or why nothing was."""
    from upright.app.pages.deployment_pages import objections_page, run_json, run_page

    if done.deployment is None:
        output.answer(done.prepared.plan, lambda console: objections_page(console, done.prepared.plan))
    else:
        output.answer(run_json(done), lambda console: run_page(console, done))
