"""`upright run`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from upright.cli.options import given, goal_options, model_argument, port_option
from upright.cli.output import Output, output_options, say

if TYPE_CHECKING:
    from upright.fetching import Need

_ASKED_BEYOND_BYTES = 10 * 10**9


@click.command()
@model_argument
@goal_options
@port_option
@click.option("--to", default="smoke", show_default=True, help="The last rung to climb.")
@click.option("--yes", is_flag=True, help="Download whatever the weights take, without asking.")
@click.option("--keep", is_flag=True, help="Leave the engine running afterwards.")
@output_options
def command(
    model: str, context: int | None, users: int, port: int, to: str, yes: bool, keep: bool, output: Output
) -> None:
    """Do all of it: probe, read, plan, start, prove, report.

    Weights that are not on this disk are fetched once the plan says yes; beyond 10 GB it asks first. The engine is
    stopped at the end unless --keep is given; its records and the page stay.
    """
    from upright.cli.fetch_progress import showing
    from upright.cli.pages import objections_page, run_page
    from upright.fetching import Arriving
    from upright.host import LocalHost
    from upright.line import run
    from upright.records.plan import Goal

    goal = Goal(context_tokens=context, users=users)
    with showing(model, alone=False) as on_progress:
        weights = Arriving(lambda need: _ask(need, yes), on_progress)
        done = run(model, goal, LocalHost(), port=port, to=to, keep=keep, tell=say, weights=weights)
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
    again = ("up", model, *given("context", "users", "port"))
    output.next(*(("connect", done.deployment.name) if keep else again))
    if not done.stands:
        output.no()


def _ask(need: Need, yes: bool) -> None:
    """Before what is expensive; nobody is asked who cannot answer."""
    from upright.errors import UsageError
    from upright.units import size

    words = f"{size(need.missing_bytes)} of {need.source} to fetch into {need.room.folder}"
    if yes or need.missing_bytes <= _ASKED_BEYOND_BYTES:
        say(words)
    elif not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError(words, hint=f"say so with --yes, or bring it first: upright fetch {need.source}")
    else:
        click.confirm(f"{words}. Go on?", abort=True, err=True)
