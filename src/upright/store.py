"""Records <-> one directory per deployment, written so that `kill -9` at any moment loses nothing.

DIR/deployments/NAME/  box.json model.json plan.json recipe.json deployment.json   the records, each replaced atomically
                       evidence.jsonl                                              appended, a line an observation
                       engine.log  supervisor.log  key (0600)  report.html
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from upright.errors import RecordError, UsageError
from upright.records.base import Record, from_json
from upright.records.deployment import Deployment
from upright.records.evidence import Observation

R = TypeVar("R", bound=Record)


def home() -> Path:
    """UPRIGHT_HOME, or the user's data directory."""
    if named := os.environ.get("UPRIGHT_HOME"):
        return Path(named).absolute()
    from platformdirs import user_data_path

    return user_data_path("upright")


@dataclass(frozen=True)
class DeploymentDir:
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

    def write(self, record: Record) -> None:
        write_atomically(self.path / f"{record.kind}.json", record.to_json().encode())

    def read(self, kind: type[R]) -> R:
        file = self.path / f"{kind.kind}.json"
        try:
            text = file.read_bytes()
        except FileNotFoundError:
            raise RecordError(f"deployment {self.name} has no {kind.kind} record") from None
        return from_json(kind, text, where=str(file))

    def has(self, kind: type[Record]) -> bool:
        return (self.path / f"{kind.kind}.json").exists()

    def key(self) -> str:
        """The API key, made on first use; it exists nowhere else."""
        if not self.key_file.exists():
            write_atomically(self.key_file, f"sk-upright-{secrets.token_urlsafe(24)}\n".encode(), mode=0o600)
        return self.key_file.read_text().strip()

    def append(self, observation: Observation) -> None:
        line = json.dumps(observation.model_dump(mode="json"), ensure_ascii=False) + "\n"
        with self.evidence_file.open("ab") as file:
            file.write(line.encode())
            file.flush()
            os.fsync(file.fileno())

    def observations(self) -> Iterator[Observation]:
        if not self.evidence_file.exists():
            return
        with self.evidence_file.open("rb") as file:
            for line in file:
                yield Observation.model_validate_json(line)


def deployments() -> list[DeploymentDir]:
    """All of them, the newest last."""
    folder = home() / "deployments"
    found = [DeploymentDir(path.parent) for path in folder.glob("*/deployment.json")]
    return sorted(found, key=lambda item: item.read(Deployment).created_at)


def create(name: str) -> DeploymentDir:
    """A new directory; `name-2` and so on if the name is taken."""
    folder = home() / "deployments"
    folder.mkdir(parents=True, exist_ok=True)
    number = 1
    while True:
        path = folder / (name if number == 1 else f"{name}-{number}")
        try:
            path.mkdir(mode=0o700)
        except FileExistsError:
            number += 1
        else:
            return DeploymentDir(path)


def find(name: str | None) -> DeploymentDir:
    """The deployment of that name, or the last one."""
    known = deployments()
    if name is None:
        if not known:
            raise UsageError("there is no deployment yet", hint="upright up MODEL")
        return known[-1]
    for deployment in known:
        if deployment.name == name:
            return deployment
    names = ", ".join(item.name for item in known) or "none"
    raise UsageError(f"no deployment named {name}", hint=f"known: {names}")


def write_atomically(path: Path, content: bytes, *, mode: int = 0o644) -> None:
    """The old content or the new, never a torn one: write beside, sync, rename, sync the directory."""
    beside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    beside.rename(path)
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
