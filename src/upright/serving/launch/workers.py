"""Records the process ids of an engine's group while it lives, and what it may have, for a diagnosis later.

The kernel names the process that it killed for memory: of an engine with workers seldom the one that was started.
"""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path

from upright.base.bounds.files import file_text, open_file
from upright.base.errors import StoreError
from upright.facts.records.deployment import Process
from upright.facts.store import DeploymentDir
from upright.facts.store.files import write_atomically
from upright.serving.launch.processes import members

_FILE = "processes"
_LIMITS = "limits"
_BETWEEN_SECONDS = 5.0
_MOST = 4096
_LONGEST_BYTES = 64 << 10


class WorkerRecorder:
    """What was seen of one start's group."""

    def __init__(self, directory: DeploymentDir) -> None:
        self.path = directory.path / _FILE
        self.pids: dict[int, None] = {}
        self.next_look = 0.0

    def look(self, led_by: Process | None) -> None:
        """Now and then; a full disk is no reason to lose the engine."""
        if led_by is None or time.monotonic() < self.next_look:
            return
        self.next_look = time.monotonic() + _BETWEEN_SECONDS
        strangers = [pid for pid in members(led_by) if pid not in self.pids]
        if not strangers or len(self.pids) >= _MOST:
            return
        self.pids |= dict.fromkeys(strangers)
        with suppress(OSError):
            self.path.write_text("".join(f"{pid}\n" for pid in self.pids), encoding="ascii")


def note_limits(directory: DeploymentDir) -> None:
    """What this process may have: a program that it starts may have no more."""
    with suppress(OSError, StoreError):
        limits = file_text(Path("/proc/self/limits"), errors="replace")
        write_atomically(directory.path / _LIMITS, limits.encode())


def recorded_limits(directory: DeploymentDir) -> str:
    """Of its last start, as /proc/PID/limits says it; nothing if nobody looked."""
    try:
        with open_file(directory.path / _LIMITS, own=True) as file:
            return file.read(_LONGEST_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""


def recorded_workers(directory: DeploymentDir) -> tuple[int, ...]:
    """Of its last start; nothing if nobody looked."""
    try:
        with open_file(directory.path / _FILE, own=True) as file:
            numbers = file.read(_LONGEST_BYTES).decode("ascii", "replace").split()
    except OSError:
        return ()
    return tuple(int(number) for number in numbers[:_MOST] if number.isdigit() and len(number) <= 10)
