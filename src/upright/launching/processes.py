"""pid -> is it still the process we started? The kernel reuses numbers, so the start time belongs to the name."""

from __future__ import annotations

import ctypes
import os
import signal
import time
from functools import cache
from pathlib import Path

from upright.records.deployment import Process

_PR_SET_PDEATHSIG = 1


def identify(pid: int) -> Process | None:
    """The process with its start time; None if there is none, or only a zombie is left."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()  # the command's name may hold spaces and brackets
    if fields[0] in "ZX":
        return None
    return Process(pid=pid, started_ticks=int(fields[19]), boot_id=_boot_id())


def alive(process: Process | None) -> bool:
    return process is not None and identify(process.pid) == process


def end(process: Process, *, patience_seconds: float = 10) -> None:
    """SIGTERM, patience, SIGKILL; to the whole group if it leads one. Never to a stranger with the same number."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if not alive(process):
            return
        _send(process.pid, number)
        deadline = time.monotonic() + patience_seconds
        while alive(process) and time.monotonic() < deadline:
            time.sleep(0.05)


def die_with_parent() -> None:
    """Called in a new child: the kernel ends it when its parent dies, however the parent dies."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


@cache
def _boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _send(pid: int, number: int) -> None:
    try:
        if os.getpgid(pid) == pid:
            os.killpg(pid, number)
        else:
            os.kill(pid, number)
    except ProcessLookupError:
        pass
