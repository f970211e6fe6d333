"""`upright share replay`."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from upright.app.cli.options import SECONDS, port_option, typed_words
from upright.app.cli.output import Output, output_options, say, watched


@click.command()
@click.argument("bundle")
@click.option("--model", help="Where its weights are here.  [default: the repository that it names]")
@click.option("--box", help="Plan it on this box instead of this machine, and run nothing.")
@click.option("--flag", "flags", multiple=True, metavar="NAME=VALUE", help="Run with this flag instead of the claim's.")
@port_option
@click.option("--budget", type=SECONDS, default="15m", show_default=True, help="Time for all of the measuring.")
@click.option("--sign", type=click.Path(path_type=Path), metavar="KEY", help="Sign the new bundle with this SSH key.")
@click.option("--write", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="The new bundle.")
@click.option("--plan-only", is_flag=True, help="Say what differs and what would be run, and stop.")
@click.option("--yes", is_flag=True, help="Run it without asking.")
@output_options
def command(
    bundle: str, model: str | None, box: str | None, flags: tuple[str, ...], port: int, budget: float,
    sign: Path | None, write: Path | None, plan_only: bool, yes: bool, output: Output,
) -> None:  # fmt: skip
    """Repeat somebody's evidence on this machine, and say cell by cell whether it comes to the same.

    BUNDLE is a file, or 12 digits of an identity that `index search` showed. What differs (cards, links, driver,
    engine, flags) is said first, with what it changes. The command that runs is rendered here: of the bundle's flags
    only those of speed and memory are taken. A bundle is written that links to it. Exit code 1 if a figure differs.
    """
    from upright.app.pages.replay_page import replay_plan_page, replayed_page
    from upright.base.errors import UsageError
    from upright.flows.replay.replay import ReplayOptions, bundle_named, plan_replay, run_replay

    run = not plan_only and box is None
    plan = plan_replay(bundle_named(bundle), ReplayOptions(model, box, flags, port, run), tell=say)
    if not run or plan.prepared.recipe is None:
        output.answer(plan.told(), lambda console: replay_plan_page(console, plan))
        output.next("replay", bundle, *typed_words("model", "flags", "port", "sign"))
        if plan.prepared.recipe is None:
            output.no()
        return
    Output(False, None).answer({}, lambda console: None if output.as_json else replay_plan_page(console, plan))
    if not yes:
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            raise UsageError("a replay starts an engine here", hint="look with --plan-only, then say --yes")
        click.confirm("Run it?", abort=True, err=True)
    with watched() as tell:
        done = run_replay(plan, write, key=sign, budget_seconds=budget, tell=tell)
    output.answer(done.told(), lambda console: replayed_page(console, done))
    output.next("verify", bundle, "--with", str(done.shared.path))
    if not done.agrees:
        output.no()
