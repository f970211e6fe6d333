"""`upright tools field-test`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from upright.app.cli.options import BANDWIDTH, SECONDS, Number, typed_words, was_typed
from upright.app.cli.output import Output, output_options, page_width, say, watched


@click.command(name="field-test")
@click.option("--budget", type=SECONDS, default="60m", show_default=True, help="Time for all of it.")
@click.option("--spend-limit", type=Number(min=0, min_open=True), help="Money for all of it; needs --price-per-hour.")
@click.option("--price-per-hour", type=Number(min=0, min_open=True), help="What an hour of the box costs.")
@click.option("--model", "models", multiple=True, help="Try this, instead of models of the catalogue.  [repeatable]")
@click.option("--download-rate", type=BANDWIDTH, default="0.5GB/s", show_default=True,
              help="What the box fetches weights at, until it is measured.")  # fmt: skip
@click.option("--box", help="Schedule for this box, with --dry-run: a name, a file, a recording or ssh:HOST.")
@click.option("--dry-run", is_flag=True, help="Print the schedule, and stop.")
@click.option("--resume", is_flag=True, help="Go on with the test that was cut off; --budget gives it more time.")
@click.option("--write", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
              help="The bundle.  [default: field-test.bundle.json]")  # fmt: skip
@click.option("--rows", "sent", type=click.Path(path_type=Path, dir_okay=False), metavar="BUNDLE",
              help="Print the rows that a bundle would add to the catalogue, as a diff, and stop.")  # fmt: skip
@click.option("--yes", is_flag=True, help="Run it without asking.")
@output_options
def command(
    output: Output, box: str | None, dry_run: bool, resume: bool, write: Path | None, sent: Path | None, yes: bool,
    **wanted: Any,
) -> None:  # fmt: skip
    """Spend the first hour on a box: what Upright claims, tried; what it was wrong about.

    A schedule within time and money: the probe, kernels that were only compiled, the smallest real model, the largest
    that fits, then what the planner knows least. A step is not begun if it does not fit what is left. A test that was
    killed goes on with --resume. At its end there are a page of what was planned wrongly, and one redacted bundle.
    Exit code 1 if a figure or a claim was wrong.
    """
    from upright.app.pages.field_page import schedule_page
    from upright.base.errors import UsageError
    from upright.flows.first_hour.request import FieldRequest, schedule_field_test
    from upright.planning.requests.plan_arguments import NamedBox, box_named

    if sent is not None:
        return _rows(sent, output)
    if box is not None and not dry_run:
        raise UsageError("a field test runs on this machine", hint="look at another box with --dry-run")
    if resume:
        from upright.flows.first_hour.field_test import resumed, unfinished

        directory = unfinished()
        resumed(directory, wanted["budget"] if was_typed("budget") else None)
        return _run(directory, write, output)
    request = FieldRequest(
        wanted["budget"], wanted["spend_limit"], wanted["price_per_hour"], wanted["models"],
        wanted["download_rate"] * 10**9,
    )  # fmt: skip
    machine = box_named(NamedBox(box=box))
    test = schedule_field_test(machine, request, here=box is None)
    if dry_run:
        output.answer(test)
        output.show(schedule_page(test, page_width()))
        output.next("field-test", *typed_words("budget", "spend_limit", "price_per_hour", "models"))
        return None
    from upright.flows.first_hour.field_test import begin

    if not output.as_json:
        output.show(schedule_page(test, page_width()))
    if not yes:
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            raise UsageError("a field test fetches weights and starts engines", hint="look with --dry-run, then --yes")
        click.confirm("Run it?", abort=True, err=True)
    return _run(begin(test, machine), write, output)


def _run(directory: Any, write: Path | None, output: Output) -> None:
    from upright.app.pages.field_page import errors_page
    from upright.flows.first_hour.field_test import run
    from upright.flows.first_hour.prediction_errors import figures_by_error, prediction_error_lines
    from upright.flows.line.agent import ended_like_ctrl_c

    with ended_like_ctrl_c(), watched() as tell:
        done = run(directory, (write or Path("field-test.bundle.json")).absolute(), tell=tell)
    output.answer(done.test)
    output.show(errors_page(prediction_error_lines(done.test), page_width()))
    say(f"wrote {done.page} and {done.bundle}")
    output.next("field-test", "--rows", str(done.bundle))
    wrong = any(one.wrong for one in figures_by_error(done.test)) or any(
        check.verdict == "wrong" for check in done.test.checks
    )
    if wrong or any(outcome.ending == "failed" for outcome in done.test.outcomes):
        output.no()


def _rows(path: Path, output: Output) -> None:
    from upright.flows.first_hour.catalogue_rows import propose
    from upright.flows.first_hour.field_bundle import open_field_bundle

    proposed = propose(open_field_bundle(path))
    output.answer(proposed.told())
    for reason in proposed.refused:
        say(f"not taken: {reason}")
    if not (change := proposed.diff()):
        say("no row follows from it")
        output.no()
    output.show(change.rstrip("\n"))
    say("next: git apply, then upright catalog list measurements --match field-")
