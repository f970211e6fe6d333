"""`upright residuals`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from upright.cli.options import deployment_argument
from upright.cli.output import Output, output_options, page_width

if TYPE_CHECKING:
    from upright.engines.memory_report import MemoryReport
    from upright.records.residuals import Residuals
    from upright.store import DeploymentDir


@click.command()
@deployment_argument
@click.option(
    "--log", metavar="FILE", help="Read this log instead, such as one that somebody sent; - is what is piped in."
)
@click.option("--engine", help="Whose log it is, if its lines do not tell.")
@output_options
def command(deployment: str | None, log: str | None, engine: str | None, output: Output) -> None:
    """Show what an engine took against what was planned, term by term.

    With --log alone: what that log says. With --log and a deployment: that log against the deployment's plan.
    """
    if log is not None and deployment is None:
        _log_alone(log, engine, output)
        return
    from upright import store
    from upright.cli.residuals_page import residuals_page
    from upright.records.recipe import Recipe

    directory = store.find(deployment)
    found = _of_log(directory, log) if log is not None else _of(directory)
    output.answer(found)
    output.show(residuals_page(found, page_width()))
    recipe = directory.read(Recipe)
    output.next("plan", recipe.model_path, "--context", str(found.context_tokens), *_users(found))
    if not any(line.measured_bytes.value is not None for line in found.lines):
        output.no()


def _of(directory: DeploymentDir) -> Residuals:
    """Read anew while it runs; of one that does not, what was kept: its metrics are gone."""
    from upright.launching import status
    from upright.launching.readback import read_back, residuals_of
    from upright.records.deployment import RUNNING
    from upright.records.residuals import Residuals

    if status(directory).state in RUNNING:
        return read_back(directory)
    return directory.read(Residuals) if directory.has(Residuals) else residuals_of(directory)


def _of_log(directory: DeploymentDir, log: str) -> Residuals:
    from upright.engines import engine_named
    from upright.planning.comparing import Seen, compare
    from upright.progress import utc_now
    from upright.records.box import Box
    from upright.records.plan import Plan

    plan = directory.read(Plan)
    seen = Seen(engine_named(plan.engine).log.memory(_text(log)))
    return compare(plan, seen, deployment=directory.name, at=utc_now(), box_identity=directory.read(Box).identity)


def _log_alone(log: str, engine: str | None, output: Output) -> None:
    from dataclasses import asdict

    from upright.cli.residuals_page import report_page

    name, report = _read(_text(log), engine)
    output.answer({"log": log, "engine": name, "readings": [asdict(reading) for reading in report.readings]})
    if name is None or not report.readings:
        _nothing_said(log, name, output)
        return
    output.show(report_page(log, name, report, page_width()))
    output.next("residuals", "DEPLOYMENT", "--log", log)


def _nothing_said(log: str, engine: str | None, output: Output) -> None:
    from upright.engines import ENGINES

    said = f"{engine} says nothing" if engine else "no engine that is known says anything"
    output.show(f"{log}: {said} about its memory there")
    hint = ENGINES[engine].log.silent_hint if engine else None
    if engine and hint:
        output.show(hint)
        output.next("render", "MODEL", "--engine", engine)
    else:
        output.next("diagnose", log)
    output.no()


def _read(text: str, engine: str | None) -> tuple[str | None, MemoryReport]:
    """By the engine that was named or that the lines tell, else by the one that finds most; None if none does."""
    from upright.diagnosing import engine_of
    from upright.diagnosing.scan import HEAD_BYTES
    from upright.engines import ENGINES, engine_named

    told = engine or engine_of(text[:HEAD_BYTES])
    if told is not None:
        return told, engine_named(told).log.memory(text)
    found = {name: each.log.memory(text) for name, each in ENGINES.items()}
    best = max(found, key=lambda name: len(found[name].readings))
    return best if found[best].readings else None, found[best]


def _text(log: str) -> str:
    from upright.errors import UsageError

    if log == "-":
        return sys.stdin.read()
    try:
        return Path(log).read_text(errors="replace")
    except OSError as error:
        raise UsageError(
            f"{log} cannot be read: {error.strerror}", hint="name a log file, or - for what is piped in"
        ) from None


def _users(found: Residuals) -> tuple[str, ...]:
    return ("--users", str(found.users)) if found.users > 1 else ()
