"""lscpu, nproc, /proc/meminfo -> the processors and the main memory."""

from __future__ import annotations

import json
import re

from upright.probing.questions import Answers, told
from upright.records.base import Figure, unknown
from upright.records.box import Cpu
from upright.units import KIB

QUESTIONS = {
    "lscpu": ("lscpu", "--json"),
    "nproc": ("nproc",),
    "cpuinfo": ("cat", "/proc/cpuinfo"),
    "meminfo": ("cat", "/proc/meminfo"),
}

_FLAGS_THAT_MATTER = re.compile(r"^(avx2|f16c|fma|avx_vnni|avx512.*|amx_.*|sve2?|i8mm|bf16|asimddp|svei8mm)$")
_MEMINFO = re.compile(r"^(\w+):\s+(\d+) kB$", re.MULTILINE)


def read_cpu(answers: Answers) -> Cpu:
    fields = _lscpu(told(answers, "lscpu")) or _cpuinfo(told(answers, "cpuinfo") or "")
    sockets = _count(fields.get("Socket(s)"), 1)
    threads = _count(told(answers, "nproc") or fields.get("CPU(s)"), 1)
    return Cpu(
        name=fields.get("Model name", "unknown processor"),
        sockets=sockets,
        cores=_count(fields.get("Core(s) per socket"), threads) * sockets,
        threads=threads,
        flags=tuple(sorted(flag for flag in fields.get("Flags", "").split() if _FLAGS_THAT_MATTER.match(flag))),
    )


def read_memory(answers: Answers) -> tuple[Figure, Figure]:
    """Total, and what a new process can have."""
    rows = {name: int(kib) * KIB for name, kib in _MEMINFO.findall(told(answers, "meminfo") or "")}
    return _row(rows, "MemTotal"), _row(rows, "MemAvailable")


def _row(rows: dict[str, int], name: str) -> Figure:
    if name not in rows:
        return unknown(f"/proc/meminfo has no {name}")
    return Figure(value=rows[name], basis="probed", source=f"/proc/meminfo {name}")


def _lscpu(text: str | None) -> dict[str, str]:
    """`lscpu --json` nests what belongs together in some versions and not in others."""
    try:
        pending = list(json.loads(text or "{}").get("lscpu", []))
    except ValueError:
        return {}
    fields: dict[str, str] = {}
    while pending:
        entry = pending.pop()
        fields[str(entry.get("field", "")).rstrip(":")] = str(entry.get("data") or "")
        pending.extend(entry.get("children", []))
    return fields


def _cpuinfo(text: str) -> dict[str, str]:
    """What /proc/cpuinfo says in lscpu's words, for machines without util-linux."""
    rows = [re.split(r"\s*:\s*", line, maxsplit=1) for line in text.splitlines() if ":" in line]
    first = dict(reversed(rows))
    sockets = {value for name, value in rows if name == "physical id"}
    return {
        "Model name": first.get("model name", "unknown processor"),
        "Socket(s)": str(len(sockets) or 1),
        "Core(s) per socket": first.get("cpu cores", ""),
        "CPU(s)": str(sum(name == "processor" for name, _ in rows)),
        "Flags": first.get("flags", first.get("Features", "")),
    }


def _count(text: str | None, otherwise: int) -> int:
    return int(text) if text is not None and text.strip().isdigit() else otherwise
