"""`upright run`."""

from __future__ import annotations

import click

from upright.cli.options import given, goal_options, model_argument, port_option
from upright.cli.output import Output, output_options, say


@click.command()
@model_argument
@goal_options
@port_option
@click.option("--to", default="smoke", show_default=True, help="The last rung to climb.")
@click.option("--keep", is_flag=True, help="Leave the engine running afterwards.")
@output_options
def command(model: str, context: int | None, users: int, port: int, to: str, keep: bool, output: Output) -> None:
    """Do all of it: probe, read, plan, start, prove, report.

    The engine is stopped at the end unless --keep is given; its records and the page stay.
    """
    from upright.cli.pages import objections_page, run_page
    from upright.host import LocalHost
    from upright.line import run
    from upright.records.plan import Goal

    goal = Goal(context_tokens=context, users=users)
    done = run(model, goal, LocalHost(), port=port, to=to, keep=keep, tell=say)
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
