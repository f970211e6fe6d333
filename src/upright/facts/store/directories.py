"""A name -> the deployment's directory, and what is in it.

A directory that cannot be read is listed with the reason and never stands in the way of the others.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Iterator
from datetime import UTC, datetime
from difflib import get_close_matches
from pathlib import Path
from typing import NamedTuple, TypeVar

from upright.base.bounds.bounded_json import parse_json
from upright.base.bounds.files import file_bytes, key_in
from upright.base.errors import RecordError, UprightError, UsageError
from upright.base.home import home, make_private
from upright.facts.records.base import Entry, Record, from_json, upgrade_content
from upright.facts.records.deployment import RUNNING, Deployment
from upright.facts.records.evidence import Observation
from upright.facts.records.residuals import Residuals
from upright.facts.store.files import cannot_write, sweep, sync_directory, write_atomically
from upright.facts.store.journal import Journal, JournalLine, last, lines

R = TypeVar("R", bound=Record)
E = TypeVar("E", bound=Entry)

_TEACHERS = 64
"""Starts that a plan learns from: every plan reads them all."""
_PATIENCE_SECONDS = 5.0
"""How long a single append waits for another one to finish."""


class DeploymentDir(NamedTuple):
    """One deployment on disk."""

    path: Path

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def log(self) -> Path:
        return self.path / "engine.log"

    @property
    def key_file(self) -> Path:
        return self.path / "key"

    @property
    def evidence_file(self) -> Path:
        return self.path / "evidence.jsonl"

    def file(self, kind: type[Record]) -> Path:
        return self.path / f"{kind.kind}.json"

    def write(self, record: Record) -> None:
        """The record is on the disk when this returns; a reader sees the old one or the new one."""
        write_atomically(self.file(type(record)), record.to_json().encode())
        sweep(self.path)

    def read(self, kind: type[R]) -> R:
        file = self.file(kind)
        try:
            text = file_bytes(file, own=True)
        except FileNotFoundError:
            raise RecordError(f"deployment {self.name} has no {kind.kind} record") from None
        except OSError as error:
            raise RecordError(f"{file} cannot be read: {error.strerror}") from None
        return from_json(kind, text, where=str(file))

    def has(self, kind: type[Record]) -> bool:
        return self.file(kind).exists()

    def key(self) -> str:
        """The API key, made on first use; it exists nowhere else."""
        if not self.key_file.exists():
            write_atomically(self.key_file, f"sk-upright-{secrets.token_urlsafe(24)}\n".encode(), mode=0o600)
        return key_in(self.key_file, own=True)

    def writer(self, *, patience_seconds: float = 0) -> Journal:
        """The evidence, opened for many appends by one writer; use it in a `with`."""
        return Journal(self.evidence_file, patience_seconds=patience_seconds)

    def append(self, entry: Entry) -> JournalLine:
        """One entry; it is on the disk when this returns."""
        with self.writer(patience_seconds=_PATIENCE_SECONDS) as journal:
            return journal.append(entry)

    def entries(self, kind: type[E]) -> Iterator[E]:
        """The evidence of one kind, in order, each line checked as it is read."""
        for line in lines(self.evidence_file):
            if line.kind == kind.kind:
                yield upgrade_content(kind, line.schema, line.content, where=f"{self.evidence_file} entry {line.seq}")

    def observations(self) -> Iterator[Observation]:
        return self.entries(Observation)

    def last(self) -> JournalLine | None:
        """The last line of evidence, found without reading the others."""
        return last(self.evidence_file)


class ListedDeployment(NamedTuple):
    """A deployment as a list shows it: its record, or why there is none."""

    directory: DeploymentDir
    deployment: Deployment | None
    problem: str | None


def deployments() -> list[DeploymentDir]:
    """All of them, the newest last; reads no evidence."""
    folder = home() / "deployments"
    try:
        named = [path for path in folder.iterdir() if os.path.lexists(path / "deployment.json")]
    except OSError:
        return []
    directories = [DeploymentDir(path) for path in named]
    return sorted(directories, key=lambda directory: (_created_at(directory.file(Deployment)), directory.name))


def list_deployments() -> list[ListedDeployment]:
    """All of them with their records, the newest last."""
    return [_listed(directory) for directory in deployments()]


def measured_residuals() -> tuple[Residuals, ...]:
    """The newest starts that were measured; a record that cannot be read teaches nothing."""
    files = sorted((home() / "deployments").glob(f"*/{Residuals.kind}.json"), key=_written_at, reverse=True)
    residuals = []
    for file in files[:_TEACHERS]:
        try:
            residuals.append(DeploymentDir(file.parent).read(Residuals))
        except UprightError:
            continue
    return tuple(residuals)


def create(name: str) -> DeploymentDir:
    """A new directory; `name-2` and so on if the name is taken. What a directory's name cannot hold becomes `-`."""
    folder = home() / "deployments"
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.") or "deployment"
    try:
        make_private(folder)
        number = 1
        while True:
            path = folder / (plain if number == 1 else f"{plain}-{number}")
            try:
                path.mkdir(mode=0o700)
            except FileExistsError:
                number += 1
            else:
                sync_directory(folder)
                return DeploymentDir(path)
    except OSError as error:
        raise cannot_write(folder, error) from None


def server_directory(name: str) -> DeploymentDir:
    """Where evidence on a server that somebody else started is kept: no deployment of ours, and listed nowhere."""
    path = home() / "servers" / (re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.") or "server")
    try:
        make_private(path)
    except OSError as error:
        raise cannot_write(path, error) from None
    return DeploymentDir(path)


def find(name: str | None) -> DeploymentDir:
    """The deployment of that name or in that directory; without a name the one that was created last."""
    if name is None:
        known = deployments()
        if not known:
            raise UsageError("there is no deployment yet", hint="upright up MODEL")
        return known[-1]
    path = Path(name) if os.sep in name else home() / "deployments" / name
    if (path / "deployment.json").exists():
        return DeploymentDir(path.resolve())
    names = [directory.name for directory in reversed(deployments())]
    near = get_close_matches(name, names, n=1)
    shown = ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
    hint = f"did you mean {near[0]}?" if near else f"known: {shown}" if names else "upright up MODEL"
    raise UsageError(f"no deployment named {name}", hint=hint)


def find_broken(name: str) -> DeploymentDir:
    """By name, or any directory: one whose records are lost must be checkable too."""
    place = Path(name)
    if place.is_dir() and (place.is_absolute() or len(place.parts) > 1 or (place / "evidence.jsonl").exists()):
        return DeploymentDir(place.resolve())
    kept = home() / "deployments" / name
    return DeploymentDir(kept) if kept.is_dir() else find(name)


def running_or_last(name: str | None) -> DeploymentDir:
    """The deployment of that name; without one the last that runs, and the last of all if none does."""
    if name is None:
        for listed in reversed(list_deployments()):
            if listed.deployment is not None and listed.deployment.state in RUNNING:
                return listed.directory
    return find(name)


def _listed(directory: DeploymentDir) -> ListedDeployment:
    try:
        return ListedDeployment(directory, directory.read(Deployment), None)
    except UprightError as error:
        return ListedDeployment(directory, None, error.message)


def _written_at(file: Path) -> float:
    try:
        return file.stat().st_mtime
    except OSError:
        return 0.0


def _created_at(file: Path) -> str:
    """As the record says it; one that cannot be read takes its file's time, so that the newest stays the newest."""
    try:
        return str(parse_json(file_bytes(file, own=True))["created_at"])
    except (OSError, ValueError, KeyError, TypeError):  # ValueError also of what is nested too deeply
        try:
            return datetime.fromtimestamp(file.stat().st_mtime, UTC).isoformat(timespec="milliseconds")
        except OSError:
            return ""
