"""What the machine says about a failure: who was killed, what is full, who has the port, what the GPUs do.

Each answer is a line, held against the catalogue's rows of `where: kernel` and `where: host` like a line of a log.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from upright.base.host import Host, Result
from upright.facts.records.diagnosis import Sighting

_FULL_BYTES = 64 << 20
"""Less than this free on a filesystem, and nothing of use can be written."""
_CGROUPS = "/sys/fs/cgroup"
_OWN_CGROUP = re.compile(r"^0::(/(?!\.\.)\S*)$", re.MULTILINE)
_LIMITS = {"Max address space": "address space", "Max data size": "data size", "Max file size": "file size"}
"""What is seldom limited, and ends an engine where it is, as /proc/PID/limits calls it and as a sighting does."""
_KERNEL = re.compile(
    r"Out of memory: Killed|oom-kill:|Memory cgroup out of memory|NVRM: |aer_uncor|Link Down|I/O error"
)
_DRIFT_SECONDS = 120
"""dmesg counts from boot, and its clock drifts from the wall's."""
_IDLE_WATTS_SHARE = 0.4
_NVIDIA_SMI = [
    "nvidia-smi", "--query-gpu=index,utilization.gpu,power.draw,power.limit", "--format=csv,noheader,nounits",
]  # fmt: skip


@dataclass(frozen=True)
class RunQuestion:
    """What to ask about one run."""

    since: str
    """When it was started (ISO 8601): the kernel's older lines are about others."""
    pids: tuple[int, ...] = ()
    """The engine's process and its supervisor's."""
    workers: tuple[int, ...] = ()
    """All processes of the engine's group that were seen; nothing if nobody looked."""
    port: int | None = None
    paths: tuple[str, ...] = ()
    """Where it reads and writes."""
    limits: str = ""
    """/proc/PID/limits of what started it; nothing if nobody looked."""
    died: bool = True
    """Whether it is gone; of a run that goes on the GPUs are asked instead."""


def ask_machine(host: Host, question: RunQuestion) -> tuple[Sighting, ...]:
    """One round of commands; what cannot be asked says nothing."""
    since = _epoch(question.since)
    commands = [
        ["journalctl", "-k", "-o", "cat", "--no-pager", "--since", f"@{since}"],
        ["dmesg", "--time-format", "iso"],
        ["df", "-PB1", *question.paths, "/dev/shm"],  # noqa: S108  asked about, not written to
        ["ss", "-Hltnp", f"sport = :{question.port or 0}"],
        _NVIDIA_SMI,
    ]
    journal, ring, disks, listeners, gpus = host.gather(commands, timeout_seconds=8)
    told_by_pid = bool(question.workers) or not question.died
    lines = [text for text in _kernel(journal, ring, since) if not (told_by_pid and _is_of_another(text, question))]
    kernel_sightings = [Sighting(where="kernel", text=text) for text in lines]
    host_lines = [*_driver(gpus)]
    if question.died:
        host_lines += [*_memory(host, question), *_disks(disks), *_listeners(listeners, question)]
        host_lines += _limits(question.limits)
    else:
        host_lines += _idle(gpus)
    return (*kernel_sightings, *(Sighting(where="host", text=text) for text in host_lines))


def _kernel(journal: Result, ring: Result, since: int) -> Iterator[str]:
    if journal.ok and journal.out.strip() and "No journal files" not in journal.out:
        yield from (line.strip() for line in journal.out.splitlines() if _KERNEL.search(line))
        return
    for line in ring.out.splitlines() if ring.ok else ():
        stamp, _, text = line.partition(" ")
        if _KERNEL.search(text) and _epoch(stamp.replace(",", ".")) >= since - _DRIFT_SECONDS:
            yield text.strip()


def _is_of_another(text: str, question: RunQuestion) -> bool:
    """A kill for memory that names processes, and none of this run's. One that names nobody may be anybody's."""
    named = {int(pid) for pid in re.findall(r"(?:pid=|process )(\d+)", text)}
    kill = bool(re.search(r"oom|killed process|out of memory", text, re.IGNORECASE))
    ours = named & {*question.pids, *question.workers}
    return kill and not ours and bool(named or not question.died)


def _memory(host: Host, question: RunQuestion) -> Iterator[str]:
    """The count of the cgroup that it ran in, or of the container's. It has no time, so it is told only beside a
    process that was killed."""
    told = (host.read_text(f"/proc/{who}/cgroup") for who in (*question.pids, "self"))
    own = next((match[1].rstrip("/") for text in told if text and (match := _OWN_CGROUP.search(text))), "")
    for path in dict.fromkeys((f"{_CGROUPS}{own}/memory.events", f"{_CGROUPS}/memory.events")):
        if (events := host.read_text(path)) is not None:
            count = re.search(r"^oom_kill ([1-9]\d*)$", events, re.MULTILINE)
            yield from (f"{path}: oom_kill {count[1]}",) if count else ()
            return


def _limits(table: str) -> Iterator[str]:
    """The soft ones that are set."""
    for line in table.splitlines():
        limit = re.match(r"(Max [a-z ]+?) {2,}(\d+) ", line)
        if limit and limit[1] in _LIMITS:
            yield f"limits: {_LIMITS[limit[1]]} {limit[2]} bytes"


def _disks(disks: Result) -> Iterator[str]:
    for line in dict.fromkeys(disks.out.splitlines()[1:]):
        columns = line.split(None, 5)
        if len(columns) == 6 and columns[3].isdigit() and int(columns[3]) < _FULL_BYTES:
            yield f"df: {columns[5]} has {int(columns[3])} bytes free of {columns[1]}"


def _listeners(listeners: Result, question: RunQuestion) -> Iterator[str]:
    for line in listeners.out.splitlines() if listeners.ok and question.port else ():
        pids = [int(pid) for pid in re.findall(r"pid=(\d+)", line)]
        if not set(pids) & set(question.pids):
            who = re.search(r'users:\(\("([^"]+)",pid=(\d+)', line)
            yield f"ss: port {question.port} is held by {f'{who[1]} (pid {who[2]})' if who else 'another process'}"


def _driver(gpus: Result) -> Iterator[str]:
    text = f"{gpus.out}\n{gpus.err}"
    if "Driver/library version mismatch" in text:
        yield "nvidia-smi: Failed to initialize NVML: Driver/library version mismatch"


def _idle(gpus: Result) -> Iterator[str]:
    """Full utilisation at a fraction of the power: a kernel that spins and waits for a peer."""
    rows = [[_number(word) for word in line.split(",")] for line in gpus.out.splitlines()] if gpus.ok else []
    spinning = [row for row in rows if len(row) == 4 and _spins(row)]
    if spinning and len(spinning) == len(rows):
        watts = ", ".join(f"{row[2]:.0f} W" for row in spinning)
        yield f"nvidia-smi: {len(rows)} GPUs are at 100 % and draw {watts}"


def _spins(row: Sequence[float | None]) -> bool:
    _, busy, watts, limit = row
    return bool(busy and busy >= 99 and watts and limit and watts < _IDLE_WATTS_SHARE * limit)


def _number(word: str) -> float | None:
    try:
        return float(word)
    except ValueError:
        return None


def _epoch(stamp: str) -> int:
    try:
        return int(datetime.fromisoformat(stamp).timestamp())
    except ValueError:
        return 0
