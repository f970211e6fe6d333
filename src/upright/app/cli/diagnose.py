"""`upright diagnose`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from upright.app.cli.options import ENGINE
from upright.app.cli.output import Output, output_options, page_width

if TYPE_CHECKING:
    from upright.facts.records.diagnosis import Diagnosis


@click.command()
@click.argument("log", metavar="[LOG|DEPLOYMENT]", required=False)
@click.option("--engine", type=ENGINE, help="Whose log it is, if its lines do not say so.")
@click.option("-p", "--previous", is_flag=True, help="Of a deployment, the start before this one.")
@click.option(
    "--issue", is_flag=True, help="Print the text of an issue for the engine's tracker, without keys and names."
)
@output_options
def command(log: str | None, engine: str | None, previous: bool, issue: bool, output: Output) -> None:
    """Say why an engine fell, by its log and its machine, and what to change.

    Without a name it is the last deployment, or an `up` after it that was refused. A dash reads what is piped in:

    \b
    docker logs vllm 2>&1 | upright diagnose -
    """
    from upright.app.pages.diagnosis_page import attempts_page, diagnosis_page
    from upright.flows.line.diagnosing import attempts_on, diagnosis_before, diagnosis_of, is_a_log, issue_of

    if previous and is_a_log(log):
        raise click.UsageError("--previous is for a deployment: a log is one file")
    diagnosis = diagnosis_before(log) if previous else diagnosis_of(log, engine)
    output.answer(diagnosis)
    if issue:
        output.show(issue_of(diagnosis, log))
    else:
        output.show(diagnosis_page(diagnosis, page_width()))
        if (attempts := attempts_on(log)) is not None:
            output.show("\n" + attempts_page(attempts, page_width()))
        _next(output, diagnosis, of_a_log=is_a_log(log))
    if diagnosis.failed or (is_a_log(log) and not diagnosis.stood):
        output.no()


def _next(output: Output, diagnosis: Diagnosis, *, of_a_log: bool) -> None:
    if diagnosis.code is not None:
        output.next("explain", diagnosis.code)
    elif not of_a_log:
        output.next("bundle" if diagnosis.failed else "report", diagnosis.subject)
    elif diagnosis.failed and Path(diagnosis.subject).is_file():
        output.next("diagnose", "--issue", diagnosis.subject)
