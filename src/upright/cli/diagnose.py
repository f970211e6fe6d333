"""`upright diagnose`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import click

from upright.cli.options import EngineName
from upright.cli.output import Output, output_options, page_width

if TYPE_CHECKING:
    from upright.records.diagnosis import Diagnosis
    from upright.store import DeploymentDir


@click.command()
@click.argument("log", metavar="[LOG|DEPLOYMENT]", required=False)
@click.option("--engine", type=EngineName(), help="Whose log it is, if its lines do not say so.")
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
    from upright.showing.diagnosis_page import diagnosis_page

    if previous and _is_a_log(log):
        raise click.UsageError("--previous is for a deployment: a log is one file")
    diagnosis = _before(log) if previous else _diagnosis(log, engine)
    output.answer(diagnosis)
    if issue:
        _file(output, diagnosis, log)
    else:
        output.show(diagnosis_page(diagnosis, page_width()))
        _tell_the_way(output, log)
        _next(output, diagnosis, log)
    if diagnosis.failed or (_is_a_log(log) and not diagnosis.stood):
        output.no()


def _file(output: Output, diagnosis: Diagnosis, log: str | None) -> None:
    from upright.bundling.issue import issue_text
    from upright.bundling.owner import known_here, known_of
    from upright.bundling.redacting import Redactor
    from upright.errors import UsageError

    if not diagnosis.failed:
        raise UsageError(f"nothing failed in {diagnosis.subject}: there is nothing to file")
    known = known_here() if _is_a_log(log) else known_of(_directory(log))
    output.show(issue_text(diagnosis, Redactor(known)))


def _diagnosis(log: str | None, engine: str | None) -> Diagnosis:
    from upright.diagnosing import Around, diagnose, diagnose_file

    if engine is not None:
        from upright.catalog.explaining.names import engine_names
        from upright.engines import engine_named

        if engine not in engine_names():  # rows speak of more engines than Upright starts
            engine_named(engine)
    if log == "-":
        return diagnose(_spooled(), subject="what was piped in", around=Around(engine=engine))
    if log is not None and Path(log).is_file():
        return diagnose_file(Path(log), around=Around(engine=engine))
    if log is not None and ("/" in log or Path(log).suffix in (".log", ".txt")) and not Path(log).exists():
        from upright.errors import UsageError

        raise UsageError(f"there is no log {log}", hint="upright diagnose DEPLOYMENT takes a deployment's name")
    from upright import store
    from upright.host import LocalHost
    from upright.launching.healing import why, why_refused

    if log is None and (refused := store.last_refusal()) is not None:
        return why_refused(refused)
    return why(_directory(log), LocalHost())


def _before(name: str | None) -> Diagnosis:
    from upright.launching.healing import why_before

    return why_before(_directory(name))


def _directory(name: str | None) -> DeploymentDir:
    from upright import store
    from upright.errors import UsageError

    try:
        return store.find(name)
    except UsageError:
        if name is None or not Path(name).is_dir():
            raise
        raise UsageError(f"{name} is a directory, and no deployment's", hint="name the log that is in it") from None


def _is_a_log(log: str | None) -> bool:
    return log is not None and (log == "-" or Path(log).is_file())


def _tell_the_way(output: Output, log: str | None) -> None:
    """The attempts that healing made, where the subject is a deployment that was healed."""
    from upright import store
    from upright.records.diagnosis import Attempts
    from upright.showing.diagnosis_page import attempts_page

    if _is_a_log(log) or (log is None and store.last_refusal() is not None):
        return
    directory = store.find(log)
    if directory.has(Attempts):
        output.show("\n" + attempts_page(directory.read(Attempts), page_width()))


def _spooled() -> BinaryIO:
    """What is piped in, in a file: a cause that no row knows is looked at twice."""
    import shutil
    import sys
    import tempfile

    kept = tempfile.TemporaryFile()  # noqa: SIM115  closed when the process ends
    shutil.copyfileobj(sys.stdin.buffer, kept)
    kept.seek(0)
    return kept


def _next(output: Output, found: Diagnosis, log: str | None) -> None:
    if found.code is not None:
        output.next("explain", found.code)
    elif _is_a_log(log) and (found.failed or found.stood is False):
        output.next("catalog", "list", "failures")
    elif found.failed:
        output.next("bundle", found.subject)
    else:
        output.next("ps")
