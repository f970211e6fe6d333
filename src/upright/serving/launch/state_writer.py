"""Writes a deployment's state to its record on disk: now, or as soon as the disk takes it.

A full disk or a failing one is no reason to end an engine that serves: its supervisor goes on and tries again. Some
room is held back beside the record, so that even on a full disk there is room for what matters.
"""

from __future__ import annotations

import os
import sys
import time
from contextlib import suppress
from pathlib import Path

from upright.base.errors import StoreError
from upright.facts.records.deployment import Deployment
from upright.facts.store import DeploymentDir
from upright.serving.launch.launch import with_fields

RESERVE = ".reserve"
_RESERVE_BYTES = 262_144
"""A record with a thousand changes of state, twice."""
_AGAIN_SECONDS = 1.0


class StateWriter:
    """The state as it is known, and as far as possible as it is written. Only the deployment's supervisor has one."""

    def __init__(self, directory: DeploymentDir) -> None:
        self.directory = directory
        self.deployment = directory.read(Deployment)
        self.is_written = True
        self._again_at = 0.0

    def note(self, **fields: object) -> None:
        later = with_fields(self.deployment, **fields)
        if {**dict(later), "changed_at": None} != {**dict(self.deployment), "changed_at": None}:
            self.deployment = later
            self._write()

    def catch_up(self) -> None:
        """What could not be written before, once more; called all the time."""
        if not self.is_written and time.monotonic() >= self._again_at:
            self._write()

    def _write(self) -> None:
        try:
            self._write_with_reserve()
        except StoreError as error:
            if self.is_written:
                log_problem(f"{error.message}; trying again")
            self.is_written = False
            self._again_at = time.monotonic() + _AGAIN_SECONDS
        else:
            self.is_written = True

    def _write_with_reserve(self) -> None:
        reserve = self.directory.path / RESERVE
        try:
            self.directory.write(self.deployment)
        except StoreError:
            if not reserve.exists():
                raise
            with suppress(OSError):
                reserve.unlink()
            self.directory.write(self.deployment)
        _hold_back(reserve)


def _hold_back(reserve: Path) -> None:
    """Bytes that are taken from the disk while there are some."""
    if reserve.exists():
        return
    with suppress(OSError):
        descriptor = os.open(reserve, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.posix_fallocate(descriptor, 0, _RESERVE_BYTES)
        except OSError:
            reserve.unlink()
        finally:
            os.close(descriptor)


def log_problem(message: str) -> None:
    """Into the supervisor's own log, which may be on the same full disk."""
    with suppress(OSError, ValueError):
        print(message, file=sys.stderr, flush=True)
