"""The kernel locks of a deployment's directory: its supervisor's, a trial's, a recipe change's.

All are kernel locks: whoever holds one may be killed at any moment, and there is nothing to put right.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from upright.base.bounds.files import MOST_KEY_BYTES, file_text, open_lock, take_lock
from upright.base.errors import LaunchError
from upright.facts.store import DeploymentDir

_A_LOOK_SECONDS = 1.0
"""Whoever only asks for a lock has it for a moment; whoever has it for longer keeps it."""


@contextmanager
def supervisor_lock(directory: DeploymentDir) -> Iterator[bool]:
    """Holds the deployment's lock; yields False if another process has it. Its holder alone writes the state."""
    with _locked(directory.path / "lock") as ours:
        yield ours


@contextmanager
def inheritable_lock(directory: DeploymentDir) -> Iterator[int]:
    """The same lock as a descriptor that a supervisor inherits: whoever starts one may be killed, and it is held."""
    deadline = time.monotonic() + _A_LOOK_SECONDS
    with _opened(directory.path / "lock") as descriptor:
        while not take_lock(descriptor):
            if time.monotonic() > deadline:
                raise LaunchError(f"{directory.name} is being started by somebody else", hint="upright ps")
            time.sleep(0.02)
        yield descriptor


def is_supervised(directory: DeploymentDir) -> bool:
    with supervisor_lock(directory) as ours:
        return not ours


@contextmanager
def inherited_lock(descriptor: int) -> Iterator[bool]:
    """The lock that `handing_over` gave to this process."""
    os.set_inheritable(descriptor, False)
    yield True


@contextmanager
def without_restarts(directory: DeploymentDir) -> Iterator[None]:
    """Meanwhile a crash is an answer: the engine is not started again. Afterwards it is kept as its record says."""
    with _opened(directory.path / "trial") as descriptor:
        take_lock(descriptor, shared=True, wait=True)
        yield


def restarts_suspended(directory: DeploymentDir) -> bool:
    if not (directory.path / "trial").exists():
        return False  # nobody ever did, and asking needs nothing of the disk
    with _locked(directory.path / "trial") as nobody:
        return not nobody


@contextmanager
def recipe_lock(directory: DeploymentDir) -> Iterator[None]:
    """Held by the one who tries other recipes on it, until the last good one runs again; else LaunchError says who."""
    path = directory.path / "change"
    with _locked(path) as ours:
        if not ours:
            who = file_text(path, MOST_KEY_BYTES, errors="replace")
            raise LaunchError(
                f"another recipe is being tried on {directory.name} by process {who or '(unknown)'}",
                hint="wait until it is done; if it is ended, the next prove or bench goes back to the last good recipe",
            )
        path.write_text(str(os.getpid()), encoding="ascii")
        yield


@contextmanager
def _locked(path: Path) -> Iterator[bool]:
    with _opened(path) as descriptor:
        yield take_lock(descriptor)


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    descriptor = open_lock(path)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
