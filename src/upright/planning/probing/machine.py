"""lscpu, /proc/meminfo, sysfs -> processors, system RAM, NUMA nodes."""

from __future__ import annotations

import re

from upright.base.bounds.bounded_json import parse_json
from upright.base.units import KIB
from upright.facts.records.base import Figure, unknown
from upright.facts.records.box import Cpu, NumaNode
from upright.planning.probing.questions import Answers, output_of, rows, script

QUESTIONS = {
    "lscpu": ("lscpu", "--json"),
    "nproc": ("nproc",),
    "cpuinfo": script("cpuinfo", "sed '/^$/q' /proc/cpuinfo; grep -c ^processor /proc/cpuinfo"),
    "meminfo": ("cat", "/proc/meminfo"),
    "memory-limit": script(
        "memory-limit",
        """
        up() {
            path=$2
            while :; do
                limit=$1${path%/}/$3 used=$1${path%/}/$4
                [ -r "$limit" ] && printf '%s\\t%s\\t%s\\n' "$limit" "$(cat "$limit")" "$(cat "$used")"
                case $path in */*) path=${path%/*} ;; *) break ;; esac
            done
        }
        own=$(sed -n 's/^0:://p' /proc/self/cgroup)
        up /sys/fs/cgroup "$own" memory.max memory.current
        own=$(sed -n 's/^[0-9]*:[^:]*memory[^:]*://p' /proc/self/cgroup)
        up /sys/fs/cgroup/memory "$own" memory.limit_in_bytes memory.usage_in_bytes
        exit 0
        """,
    ),
    "numa": script(
        "numa",
        """
        for node in /sys/devices/system/node/node[0-9]*; do
            total=$(sed -n 's/.*MemTotal: *\\([0-9]*\\) kB/\\1/p' "$node/meminfo")
            printf '%s\\t%s\\t%s\\n' "${node##*node}" "$(cat "$node/cpulist")" "$total"
        done
        """,
    ),
}

_FLAGS_THAT_MATTER = re.compile(r"^(avx2|f16c|fma|avx_vnni|avx512.*|amx_.*|sve2?|i8mm|bf16|asimddp|svei8mm)$")
_MEMINFO = re.compile(r"^(\w+):\s+(\d+) kB$", re.MULTILINE)


def read_cpu(answers: Answers) -> Cpu:
    fields = _lscpu(output_of(answers, "lscpu")) or _cpuinfo(output_of(answers, "cpuinfo") or "")
    sockets, cores_per_socket = _count(fields.get("Socket(s)")), _count(fields.get("Core(s) per socket"))
    return Cpu(
        name=fields.get("Model name") or "unknown processor",
        sockets=sockets,
        cores=cores_per_socket * sockets if cores_per_socket and sockets else None,
        threads=_count(output_of(answers, "nproc")) or _count(fields.get("CPU(s)")),
        flags=tuple(sorted(flag for flag in fields.get("Flags", "").split() if _FLAGS_THAT_MATTER.match(flag))),
        hypervisor=fields.get("Hypervisor vendor"),
    )


def read_memory(answers: Answers) -> tuple[Figure, Figure]:
    """Total, and what a new process can have: a container's or a slice's limit counts."""
    lines = {name: int(kib) * KIB for name, kib in _MEMINFO.findall(output_of(answers, "meminfo") or "")}
    available = _line(lines, "MemAvailable")
    for path, limit, used in rows(answers, "memory-limit", 3):
        room = int(limit) - int(used) if limit.isdecimal() and used.isdecimal() else None
        if room is not None and available.value is not None and room < available.value:
            available = Figure(value=max(room, 0), basis="probed", source=f"{path} minus what is used")
    return _line(lines, "MemTotal"), available


def read_numa(answers: Answers) -> tuple[NumaNode, ...]:
    nodes = []
    for index, cpus, kib in rows(answers, "numa", 3):
        memory = int(kib) * KIB if kib.isdecimal() else 0
        if index.isdecimal() and (cpus or memory):
            figure = Figure(value=memory, basis="probed", source=f"/sys/devices/system/node/node{index}/meminfo")
            nodes.append(NumaNode(index=int(index), cpus=cpus, memory_bytes=figure))
    return tuple(sorted(nodes, key=lambda node: node.index))


def _line(lines: dict[str, int], name: str) -> Figure:
    if name not in lines:
        return unknown(f"/proc/meminfo has no {name}")
    return Figure(value=lines[name], basis="probed", source=f"/proc/meminfo {name}")


def _lscpu(text: str | None) -> dict[str, str]:
    """`lscpu --json` nests what belongs together in some versions and not in others."""
    try:
        pending = list(parse_json(text or "{}").get("lscpu", []))
    except (ValueError, AttributeError, TypeError):
        return {}
    fields: dict[str, str] = {}
    while pending:
        entry = pending.pop()
        if not isinstance(entry, dict):
            continue
        fields[str(entry.get("field", "")).rstrip(":")] = str(entry.get("data") or "")
        pending.extend(entry.get("children") or [])
    return fields


def _cpuinfo(text: str) -> dict[str, str]:
    """What /proc/cpuinfo says of the first processor in lscpu's words, for machines without util-linux."""
    fields = dict(re.split(r"\s*:\s*", line, maxsplit=1) for line in text.splitlines() if ":" in line)
    count = text.strip().rpartition("\n")[2]
    siblings, threads = fields.get("siblings", ""), count if count.isdecimal() else ""
    known = siblings.isdecimal() and int(siblings) > 0 and threads
    return {
        "Model name": fields.get("model name", ""),
        "Socket(s)": str(max(int(threads) // int(siblings), 1)) if known else "",
        "Core(s) per socket": fields.get("cpu cores", ""),
        "CPU(s)": threads,
        "Flags": fields.get("flags", fields.get("Features", "")),
    }


def _count(text: str | None) -> int | None:
    return int(text) if text is not None and text.strip().isdecimal() else None
