"""`upright tools residuals`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from upright.app.cli.options import ENGINE, deployment_argument
from upright.app.cli.output import Output, output_options, page_width
from upright.base.bounds.files import head_text

if TYPE_CHECKING:
    from upright.facts.records.residuals import Residuals


@click.command()
@deployment_argument
@click.option(
    "--log", metavar="FILE", help="Read this log instead, such as one that somebody sent; - is what is piped in."
)
@click.option("--engine", type=ENGINE, help="Whose log it is, if its lines do not tell.")
@output_options
def command(deployment: str | None, log: str | None, engine: str | None, output: Output) -> None:
    """Show what an engine took against what was planned, term by term.

    With --log alone: what that log says. With --log and a deployment: that log against the deployment's plan.
    """
    if log is not None and deployment is None:
        _log_alone(log, engine, output)
        return
    from upright.app.pages.residuals_page import residuals_page
    from upright.facts import store
    from upright.facts.records.recipe import Recipe
    from upright.flows.line.residuals import present_residuals, residuals_of_log

    directory = store.find(deployment)
    residuals = present_residuals(directory) if log is None else residuals_of_log(directory, _text(log))
    output.answer(residuals)
    output.show(residuals_page(residuals, page_width()))
    recipe = directory.read(Recipe)
    output.next("plan", recipe.model_path, "--context", str(residuals.context_tokens), *_users(residuals))
    if not any(line.measured_bytes.value is not None for line in residuals.lines):
        output.no()


def _log_alone(log: str, engine: str | None, output: Output) -> None:
    from dataclasses import asdict

    from upright.app.pages.residuals_page import report_page
    from upright.flows.line.residuals import memory_of_log

    name, report = memory_of_log(_text(log), engine)
    output.answer({"log": log, "engine": name, "readings": [asdict(reading) for reading in report.readings]})
    if name is None or not report.readings:
        _nothing_said(log, name, output)
        return
    output.show(report_page(log, name, report, page_width()))
    output.next("residuals", "DEPLOYMENT", "--log", log)


def _nothing_said(log: str, engine: str | None, output: Output) -> None:
    from upright.engines import ENGINES

    sentence = f"{engine} says nothing" if engine else "no engine that is known says anything"
    output.show(f"{log}: {sentence} about its memory there")
    hint = ENGINES[engine].log.silent_hint if engine else None
    if engine and hint:
        output.show(hint)
        output.next("render", "MODEL", "--engine", engine)
    else:
        output.next("diagnose", log)
    output.no()


def _text(log: str) -> str:
    from upright.base.errors import UsageError

    if log == "-":
        return sys.stdin.read()
    try:
        return head_text(Path(log))
    except OSError as error:
        raise UsageError(
            f"{log} cannot be read: {error.strerror}", hint="name a log file, or - for what is piped in"
        ) from None


def _users(residuals: Residuals) -> tuple[str, ...]:
    return ("--users", str(residuals.users)) if residuals.users > 1 else ()
