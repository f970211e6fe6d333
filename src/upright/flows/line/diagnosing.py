"""Diagnosis of a log, of standard input or of a deployment, as a person names it."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path
from typing import BinaryIO

from upright.base.errors import UsageError
from upright.base.host import LocalHost
from upright.engines import engine_named
from upright.evidence.bundle.identities import identities_of, machine_identities
from upright.evidence.bundle.issue import issue_text
from upright.evidence.bundle.redacting import Redactor
from upright.facts import store
from upright.facts.catalog.explaining.names import engine_names
from upright.facts.records.diagnosis import Attempts, Diagnosis
from upright.facts.store import DeploymentDir
from upright.serving.diagnose import LogContext, diagnose, diagnose_file
from upright.serving.launch.healing import diagnose_deployment, diagnose_previous_start, diagnose_refusal


def is_a_log(name: str | None) -> bool:
    """A file, or what is piped in; anything else names a deployment."""
    return name is not None and (name == "-" or Path(name).is_file())


def diagnosis_of(name: str | None, engine: str | None) -> Diagnosis:
    """Without a name: the last deployment, or an `up` after it that was refused."""
    if engine is not None and engine not in engine_names():  # rows speak of more engines than Upright starts
        engine_named(engine)
    if name == "-":
        return diagnose(_spooled(), subject="what was piped in", around=LogContext(engine=engine))
    if name is not None and Path(name).is_file():
        return diagnose_file(Path(name), around=LogContext(engine=engine))
    if name is not None and ("/" in name or Path(name).suffix in (".log", ".txt")) and not Path(name).exists():
        raise UsageError(f"there is no log {name}", hint="upright diagnose DEPLOYMENT takes a deployment's name")
    if name is None and (refused := store.last_refusal()) is not None:
        return diagnose_refusal(refused)
    return diagnose_deployment(_directory(name), LocalHost())


def diagnosis_before(name: str | None) -> Diagnosis:
    """Of the start before this one."""
    return diagnose_previous_start(_directory(name))


def attempts_on(name: str | None) -> Attempts | None:
    """What healing tried, where the subject is a deployment that was healed."""
    if is_a_log(name) or (name is None and store.last_refusal() is not None):
        return None
    directory = store.find(name)
    return directory.read(Attempts) if directory.has(Attempts) else None


def issue_of(diagnosis: Diagnosis, name: str | None) -> str:
    """Text for the engine's tracker, without keys and names."""
    if not diagnosis.failed:
        raise UsageError(f"nothing failed in {diagnosis.subject}: there is nothing to file")
    known = machine_identities() if is_a_log(name) else identities_of(_directory(name))
    return issue_text(diagnosis, Redactor(known))


def _directory(name: str | None) -> DeploymentDir:
    try:
        return store.find(name)
    except UsageError:
        if name is None or not Path(name).is_dir():
            raise
        raise UsageError(f"{name} is a directory, and no deployment's", hint="name the log that is in it") from None


def _spooled() -> BinaryIO:
    """What is piped in, in a file: a cause that no row knows is looked at twice."""
    kept = tempfile.TemporaryFile()  # noqa: SIM115  closed when the process ends
    shutil.copyfileobj(sys.stdin.buffer, kept)
    kept.seek(0)
    return kept
