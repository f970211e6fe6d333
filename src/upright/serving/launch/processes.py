"""Processes and process groups of engines: is a pid still the process we started, and what is left of its group?

The kernel reuses numbers, so the start time and the boot belong to a process's name. An engine leads a group of its
own: workers that outlive their leader hold the GPU's memory, so ending an engine means ending its group.
"""

from __future__ import annotations

import ctypes
import os
import signal
import time
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from upright.facts.records.deployment import Process

_PR_SET_PDEATHSIG = 1


def identify(pid: int) -> Process | None:
    """The process with its start time; None if there is none, or only a zombie is left."""
    process_stat = _stat(pid)
    return process_stat.process if process_stat is not None and not process_stat.zombie else None


def leader(pid: int) -> Process:
    """A child of ours that leads its group, alive or not yet waited for."""
    process_stat = _stat(pid)
    assert process_stat is not None, "a child that was not waited for is in the table"
    return process_stat.process


def alive(process: Process | None) -> bool:
    return process is not None and identify(process.pid) == process


def send(process: Process, number: int) -> None:
    """A signal to that process, never to a stranger with the same number."""
    if alive(process):
        with suppress(ProcessLookupError):
            os.kill(process.pid, number)


def end_group(led_by: Process, *, patience_seconds: float = 10) -> None:
    """SIGTERM, patience, SIGKILL, until no member of the group is left, whether or not its leader still is."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if not members(led_by):
            return
        try:
            os.killpg(led_by.pid, number)
        except ProcessLookupError:
            return
        deadline = time.monotonic() + patience_seconds
        while members(led_by) and time.monotonic() < deadline:
            time.sleep(0.05)


def members(led_by: Process) -> list[int]:
    """Living processes of the group. A group keeps its leader's number from being given to anybody else."""
    if led_by.boot_id not in (None, boot_id()):
        return []
    owner = _stat(led_by.pid)
    if owner is not None and owner.process.started_ticks != led_by.started_ticks:
        return []  # the number was given away, so nothing of that group is left
    process_stats = (_stat(int(path.name)) for path in Path("/proc").glob("[0-9]*"))
    return [
        process_stat.process.pid
        for process_stat in process_stats
        if process_stat is not None and process_stat.group == led_by.pid and not process_stat.zombie
    ]


def die_with_parent() -> None:
    """Called in a new child: the kernel ends it when its parent dies, however the parent dies."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


@dataclass(frozen=True)
class _Stat:
    process: Process
    group: int
    zombie: bool


def _stat(pid: int) -> _Stat | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()  # the command's name may hold spaces and brackets
    process = Process(pid=pid, started_ticks=int(fields[19]), boot_id=boot_id())
    return _Stat(process, group=int(fields[2]), zombie=fields[0] in "ZX")


@cache
def boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
