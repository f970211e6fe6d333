"""Trials of speculative decoding on the disk: the newest as the deployment's record, and each under its own time."""

from __future__ import annotations

from upright.facts.records.loading import load
from upright.facts.records.speculation import Speculation
from upright.facts.store import DeploymentDir, write_atomically

_FOLDER = "trials"


def save_trial(directory: DeploymentDir, record: Speculation) -> None:
    folder = directory.path / _FOLDER
    folder.mkdir(exist_ok=True)
    write_atomically(folder / f"{record.at.replace(':', '')}.json", record.to_json().encode())
    directory.write(record)


def trials(directory: DeploymentDir) -> tuple[Speculation, ...]:
    """All of them, the newest last."""
    files = (directory.path / _FOLDER).glob("*.json")
    return tuple(sorted((load(file, Speculation) for file in files), key=lambda record: record.at))
