"""An engine's process group -> the system RAM that it really holds.

Shared pages are counted once (PSS): vLLM's three processes share most of their libraries.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from upright.facts.records.deployment import Process
from upright.serving.launch.processes import members

_KIB = 1024


@dataclass(frozen=True)
class Resident:
    """Bytes of system RAM."""

    anonymous_bytes: int
    """What the processes made themselves."""
    file_bytes: int
    """What they mapped: programs, libraries, weights."""
    shared_bytes: int
    """What they share by name."""
    processes: int
    """How many there are."""


def resident(led_by: Process) -> Resident | None:
    """None if the kernel does not say, for any of them: half a sum is no measurement."""
    pids = members(led_by)
    rollups = [_rollup(pid) for pid in pids]
    if not pids or None in rollups:
        return None
    known = [rollup for rollup in rollups if rollup is not None]
    anonymous, file, shared = (sum(rollup.get(name, 0) for rollup in known) for name in _NAMES)
    return Resident(anonymous, file, shared, len(pids))


_NAMES = ("Pss_Anon", "Pss_File", "Pss_Shmem")


def _rollup(pid: int) -> dict[str, int] | None:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return None
    pairs = (line.split(":", 1) for line in lines if line.startswith("Pss_"))
    return {name: int(size_text.split()[0]) * _KIB for name, size_text in pairs} or None
