"""Interference on this machine during a cell: other processes, steal time, throttling.

The engine's own processes are told by who listens on its port; where that cannot be seen (a container, another
person's), only what no engine of ours can cause is said.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from upright.base.bounds.files import file_text

_BUSY_SHARE = 0.1
"""Of all processors' time: beyond it others have changed the figures."""
_LEAST_SECONDS = 1.0
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True)
class HostCounters:
    """What this machine had done until a moment, in seconds of all its processors."""

    worked_seconds: float
    """By everybody."""
    stolen_seconds: float
    """Taken by the host of a virtual machine."""
    ours_seconds: float | None
    """By the engine and the generator; None if the engine cannot be seen."""
    throttled: int
    """How often a processor was slowed for its heat."""


@dataclass(frozen=True)
class HostCounterReader:
    """Looks at /proc; None of it is there on other systems."""

    host: str
    port: int
    root: Path = Path("/")

    def look(self) -> HostCounters | None:
        try:
            names = file_text(self.root / "proc/stat").split("\n", 1)[0].split()[1:9]
            user, nice, system, _, _, irq, soft, stolen = (int(name) / os.sysconf("SC_CLK_TCK") for name in names)
        except (OSError, ValueError):
            return None
        counts = (self.root / "sys/devices/system/cpu").glob("cpu[0-9]*/thermal_throttle/core_throttle_count")
        throttled = sum(_number(file) for file in counts)
        return HostCounters(user + nice + system + irq + soft, stolen, self._ours(), throttled)

    def _ours(self) -> float | None:
        parents, spent = self._processes()
        own = {os.getpid()}
        if self.host in _LOOPBACK:
            engine = self._listener(parents)
            if engine is None:
                return None
            own.add(engine)
        for _ in range(len(parents)):
            children = {pid for pid, parent in parents.items() if parent in own} - own
            if not children:
                break
            own |= children
        return sum(spent.get(pid, 0.0) for pid in own)

    def _processes(self) -> tuple[dict[int, int], dict[int, float]]:
        """Every process with its parent, and what it and its ended children have used."""
        parents, spent = dict[int, int](), dict[int, float]()
        for file in (self.root / "proc").glob("[0-9]*/stat"):
            try:
                fields = file_text(file, errors="replace").rpartition(")")[2].split()
                pid = int(file.parent.name)
                parents[pid] = int(fields[1])
                spent[pid] = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
            except (OSError, ValueError, IndexError):
                continue
        return parents, spent

    def _listener(self, parents: dict[int, int]) -> int | None:
        """Who listens on the port, if it may be seen."""
        sockets = {
            f"socket:[{fields[9]}]"
            for name in ("tcp", "tcp6")
            for line in _lines(self.root / "proc/net" / name)[1:]
            if len(fields := line.split()) > 9
            and fields[3] == "0A"
            and int(fields[1].rpartition(":")[2], 16) == self.port
        }
        for pid in parents if sockets else ():
            try:
                links = {str(entry.readlink()) for entry in (self.root / "proc" / str(pid) / "fd").iterdir()}
            except OSError:
                continue
            if links & sockets:
                return pid
        return None


def disturbances(
    before: HostCounters | None, after: HostCounters | None, seconds: float, processors: int
) -> tuple[str, ...]:
    """What others did meanwhile, in words; nothing of a machine that was left alone, or of too short a time."""
    if before is None or after is None or seconds < _LEAST_SECONDS:
        return ()
    remarks, whole = [], seconds * processors
    if before.ours_seconds is not None and after.ours_seconds is not None:
        ours = max(0.0, after.ours_seconds - before.ours_seconds)
        others = max(0.0, after.worked_seconds - before.worked_seconds - ours)
        if others > _BUSY_SHARE * whole:
            remarks.append(f"busy machine: other processes took {100 * others / whole:.0f} % of {_cores(processors)}")
    stolen = after.stolen_seconds - before.stolen_seconds
    if stolen > _BUSY_SHARE * whole:
        remarks.append(f"busy machine: its host took {100 * stolen / whole:.0f} % of {_cores(processors)} (steal)")
    if after.throttled > before.throttled:
        remarks.append(f"processors were throttled for their heat {after.throttled - before.throttled} times")
    return tuple(remarks)


def _cores(count: int) -> str:
    return "1 processor" if count == 1 else f"{count} processors"


def _number(file: Path) -> int:
    text = "".join(_lines(file)).strip()
    return int(text) if text.isdecimal() else 0


def _lines(file: Path) -> list[str]:
    try:
        return file_text(file, errors="replace").splitlines()
    except OSError:
        return []
