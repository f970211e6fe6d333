"""System RAM and processor time that a deployment's engine and machine use now, by one short question.

Cheap enough to be asked every second under load, which smaps_rollup of a large engine is not: pages that processes
share are counted in each of them, so this is for growth, and `resident` for how much it is.
"""

from __future__ import annotations

from dataclasses import dataclass

from upright.base.errors import HostError
from upright.base.host import Host, LocalHost, SshHost
from upright.facts.records.deployment import Deployment

_KIB = 1024
# A group and the descendants of its leader: workers that made a group of their own are the engine's too.
_SCRIPT = r"""cat /proc/[0-9]*/stat 2>/dev/null | awk -v root="$1" '
{ pid = $1; sub(/^.*\) /, ""); parent[pid] = $2; group[pid] = $3; ticks[pid] = $12 + $13 }
END {
  for (pid in parent) {
    at = pid
    while (at != root && group[at] != root && (parent[at] in parent)) at = parent[at]
    if (at != root && group[at] != root) continue
    count++; used += ticks[pid]; file = "/proc/" pid "/status"
    while ((getline line < file) > 0)
      if (line ~ /^(RssAnon|RssShmem|VmSwap):/) { split(line, word, " "); held += word[2] }
    close(file)
  }
  printf "engine %d %d %d\n", count, held, used
}'
grep -E '^(MemAvailable|AnonPages|Shmem|SUnreclaim|PageTables|KernelStack):' /proc/meminfo
grep '^cpu ' /proc/stat
echo "ticks $(getconf CLK_TCK)"
echo "processors $(grep -c '^cpu[0-9]' /proc/stat)"
"""


@dataclass(frozen=True)
class Footprint:
    """System RAM and processor time at one moment."""

    processes: int
    """Of the engine."""
    engine_bytes: int
    """What the engine's processes made themselves, in memory or swapped out; mapped files are not in it."""
    kernel_bytes: int
    """What no program counts as its own: page tables, slabs, stacks, shared memory."""
    others_bytes: int
    """What all other programs made."""
    available_bytes: int
    """What the machine could still give."""
    engine_seconds: float
    """Processor time that the engine has used so far."""
    busy_seconds: float
    """Processor time that the whole machine has used so far."""
    processors: int
    """Of the machine."""


class FootprintMeter:
    """Asks one deployment's machine; the engine is that of the moment the meter was made."""

    def __init__(self, deployment: Deployment) -> None:
        self._host: Host = LocalHost() if deployment.machine is None else SshHost(deployment.machine)
        self._root = _root(deployment, self._host)

    def read(self) -> Footprint | None:
        """None if there is no such engine any more, or the machine does not say."""
        if self._root is None:
            return None
        try:
            said = self._host.run(["sh", "-c", _SCRIPT, "footprint", str(self._root)])
        except HostError:
            return None
        return read_footprint(said.out)


def read_footprint(text: str) -> Footprint | None:
    rows = {columns[0].rstrip(":"): columns[1:] for line in text.splitlines() if (columns := line.split())}
    try:
        processes, held, used = (int(word) for word in rows["engine"])
        kib = {name: int(rows[name][0]) for name in (*_KERNEL, "AnonPages", "MemAvailable")}
        ticks, processors = int(rows["ticks"][0]), int(rows["processors"][0])
        user, nice, system, _idle, _wait, interrupts, softly, stolen = (int(word) for word in rows["cpu"][:8])
    except (KeyError, ValueError, IndexError):
        return None
    if not processes:
        return None
    return Footprint(
        processes=processes,
        engine_bytes=held * _KIB,
        kernel_bytes=sum(kib[name] for name in _KERNEL) * _KIB,
        others_bytes=max(0, kib["AnonPages"] - held) * _KIB,
        available_bytes=kib["MemAvailable"] * _KIB,
        engine_seconds=used / ticks,
        busy_seconds=(user + nice + system + interrupts + softly + stolen) / ticks,
        processors=processors,
    )


_KERNEL = ("Shmem", "SUnreclaim", "PageTables", "KernelStack")


def _root(deployment: Deployment, host: Host) -> int | None:
    """The process whose descendants are the engine: a container's first, not the client that waits for it."""
    if deployment.container is None:
        return deployment.process.pid if deployment.process else None
    reply = host.run([deployment.runtime, "inspect", "--format", "{{.State.Pid}}", deployment.container])
    return int(reply.out) if reply.ok and reply.out.strip().isdigit() and int(reply.out) > 0 else None
