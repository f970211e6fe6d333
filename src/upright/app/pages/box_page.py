"""Box -> one screen for people. Figures are probed unless they say otherwise."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import TYPE_CHECKING

from upright.base.units import GIB, format_memory, format_size
from upright.engines import ENGINES
from upright.engines.facets.finding import ProgramFinding

if TYPE_CHECKING:
    from rich.console import Console

    from upright.facts.records.base import Figure
    from upright.facts.records.box import Box, Gpu

_NEARNESS = ("NV", "PIX", "PXB", "PHB", "NODE", "SYS")
_PAIRS_SHOWN = 8
# Drivers keep about 600 MiB of an idle GPU for themselves.
_IDLE_BYTES = 2 * GIB
_FLAGS_SHOWN = ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_tile", "amx_int8", "i8mm", "sve", "sve2")


def box_page(console: Console, box: Box) -> None:
    from rich.table import Table
    from rich.text import Text

    console.print(Text(box.name, style="bold"))
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True, min_width=10)
    table.add_column()
    for label, text in _lines(box):
        table.add_row(Text(f"  {label}", style="cyan"), Text(text, style="yellow" if text.startswith("!") else ""))
    console.print(table)


def _lines(box: Box) -> Iterator[tuple[str, str]]:
    yield from _labelled("system", _system(box))
    yield from _labelled("cpu", _cpu(box))
    yield from _labelled("memory", _memory_lines(box))
    yield from _labelled("gpu", _gpus(box))
    yield from _labelled("links", _links(box))
    yield from _labelled("disks", _disks(box))
    yield from _labelled("containers", _containers(box))
    yield from _labelled("engines", _engines(box))
    yield from _labelled("settings", _settings(box))


def _labelled(label: str, lines: Iterator[str]) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(lines):
        yield (label if number == 0 else "", line)


def _system(box: Box) -> Iterator[str]:
    software = box.software
    parts = [software.system, f"kernel {software.kernel}" if software.kernel else None]
    parts.append(f"{box.cpu.hypervisor} guest" if box.cpu.hypervisor else None)
    if any(parts):
        yield ", ".join(word for word in parts if word)
    elif box.basis == "catalog":
        yield "a description from the catalogue: nobody looked"
    if software.driver:
        modules = {True: " (open modules)", False: " (closed modules)", None: ""}[software.driver_open]
        yield f"NVIDIA driver {software.driver}{modules}, CUDA up to {software.cuda or 'unknown'}"


def _cpu(box: Box) -> Iterator[str]:
    cpu = box.cpu
    yield f"{cpu.name}: {_count(cpu.sockets, 'socket')}, {_count(cpu.cores, 'core')}, {_count(cpu.threads, 'thread')}"
    flags = [flag for flag in _FLAGS_SHOWN if flag in cpu.flags]
    if flags:
        yield " ".join(flags)


def _memory_lines(box: Box) -> Iterator[str]:
    nodes = f"; {_count(len(box.numa), 'NUMA node')}" if box.numa else ""
    yield f"{_memory(box.memory_bytes)}, {_memory(box.memory_available_bytes)} available{nodes}"
    theoretical, measured = box.memory_bandwidth_bytes_per_second, box.memory_bandwidth_measured_bytes_per_second
    if theoretical.value is not None:
        how = f": {theoretical.source}{_kind(box)}" if theoretical.basis in ("derived", "assumed") else ""
        yield f"{_rate(theoretical)} theoretical{how}"
    if measured.value is not None:
        yield f"{_rate(measured)}: {measured.source}"
    if theoretical.value is None and measured.value is None:
        remedy = ": no DIMM table (root may see it); --measure finds out" if box.basis == "probed" else ""
        yield f"bandwidth unknown{remedy}"


def _kind(box: Box) -> str:
    modules = box.memory_modules
    return f" ({modules.count.value} {modules.kind} modules)" if modules.kind and modules.count.value else ""


def _gpus(box: Box) -> Iterator[str]:
    if not box.gpus:
        yield "none"
    for _, members in groupby(box.gpus, key=_alike):
        gpus = list(members)
        first, many = gpus[0], len(gpus) > 1
        total = sum(gpu.memory_bytes.value or 0 for gpu in gpus)
        where = f"{first.index}-{gpus[-1].index}" if many else str(first.index)
        yield f"{len(gpus)} x {first.name} ({where})" if many else f"{first.name} ({where})"
        parts = [f"compute capability {first.compute_capability or 'unknown'}", _memory(first.memory_bytes)]
        parts[1] += f" each, {format_memory(total)} in all" if many and total else ""
        parts.append(_rate(first.memory_bandwidth_bytes_per_second))
        yield ", ".join(word for word in parts if word)
        yield from _silicon(first)
    busy = [f"GPU {gpu.index} {format_memory(used)}" for gpu in box.gpus if (used := _in_use(gpu)) > _IDLE_BYTES]
    if busy:
        yield f"! in use by others: {', '.join(busy)}"


def _in_use(gpu: Gpu) -> float:
    total, free = gpu.memory_bytes.value, gpu.memory_free_bytes.value
    return 0 if total is None or free is None else total - free


def _silicon(gpu: Gpu) -> Iterator[str]:
    pcie, parts = gpu.pcie, []
    if pcie.generation_max.value is not None and pcie.width_lanes.value is not None:
        idle = "" if pcie.generation.value == pcie.generation_max.value else f" (resting at {pcie.generation.value})"
        parts.append(f"PCIe {pcie.generation_max.value} x{pcie.width_lanes.value}{idle}")
    if gpu.bar1_bytes.value is not None:
        parts.append(f"BAR1 {format_memory(gpu.bar1_bytes.value)}")
    if gpu.power_limit_watts.value is not None:
        most = gpu.power_limit_max_watts.value
        parts.append(f"{gpu.power_limit_watts.value:.0f} W" + (f" of {most:.0f} W" if most is not None else ""))
    if gpu.shared_memory_block_bytes.value is not None:
        basis = _marked(gpu.shared_memory_block_bytes)
        parts.append(f"{gpu.shared_memory_block_bytes.value // 1024:.0f} KiB shared memory a block{basis}")
    if parts:
        yield ", ".join(parts)


def _alike(gpu: Gpu) -> tuple[object, ...]:
    return (gpu.name, gpu.memory_bytes.value, gpu.power_limit_watts.value, gpu.pcie.width_lanes.value, gpu.bar1_bytes)


def _links(box: Box) -> Iterator[str]:
    if not box.links:
        return
    groups: dict[str, list[str]] = {}
    for link in box.links:
        groups.setdefault(link.path, []).append(f"{link.a}-{link.b}")
    shown = [_group(path, groups[path], len(box.links)) for path in sorted(groups, key=_distance)]
    yield "; ".join(shown) + ("" if any(link.fabric for link in box.links) else "; no NVLink")
    nodes = {gpu.numa_node for gpu in box.gpus}
    if len(nodes) > 1 and None not in nodes:
        yield "; ".join(
            f"node {node}: GPU {' '.join(str(gpu.index) for gpu in box.gpus if gpu.numa_node == node)}"
            for node in sorted(node for node in nodes if node is not None)
        )


def _group(path: str, pairs: list[str], total: int) -> str:
    if len(pairs) == total:
        return f"{path} between all {total} pairs" if total > 1 else f"{path} {pairs[0]}"
    return f"{path} {' '.join(pairs)}" if len(pairs) <= _PAIRS_SHOWN else f"{path} {len(pairs)} pairs"


def _distance(path: str) -> int:
    return next((rank for rank, name in enumerate(_NEARNESS) if path.startswith(name)), len(_NEARNESS))


def _disks(box: Box) -> Iterator[str]:
    for disk in sorted(box.disks, key=lambda disk: -(disk.free_bytes.value or 0))[:4]:
        yield f"{disk.mount}: {_size(disk.free_bytes)} free of {_size(disk.size_bytes)} ({disk.filesystem})"
    cache = box.model_cache
    if cache is not None:
        where = f", on {cache.mount}" if cache.mount else ""
        yield f"Hugging Face cache {cache.path}: {_size(cache.used_bytes)} used{where}"


def _containers(box: Box) -> Iterator[str]:
    for runtime in box.containers:
        if runtime.usable:
            yield f"{runtime.name} {runtime.version or ''} (GPUs: {runtime.gpus or 'no'})"
        else:
            yield f"{runtime.name}, not usable: {runtime.problem}"


def _engines(box: Box) -> Iterator[str]:
    for engine in box.engines:
        flags = f", {len(engine.flags)} flags" if engine.flags is not None else ""
        yield f"{engine.engine} {engine.version or '(no version)'}{flags}: {engine.program}"
    if not box.engines and box.basis == "probed":
        findings = (engine.finding for engine in ENGINES.values())
        variables = dict.fromkeys(
            finding.variable for finding in findings if isinstance(finding, ProgramFinding) and finding.variable
        )
        yield ", ".join(("none on PATH", *(f"none in {variable}" for variable in variables)))


def _settings(box: Box) -> Iterator[str]:
    for setting in box.settings:
        if setting.verdict == "attention":
            yield f"! {setting.name}: {setting.state}"
            yield f"  {setting.change}"
    good = [setting.name for setting in box.settings if setting.verdict == "good"]
    if good:
        yield f"good: {', '.join(good)}"
    for setting in box.settings:
        if setting.verdict == "unknown":
            yield f"unknown: {setting.name}: {setting.state}"


def _count(number: int | None, noun: str) -> str:
    return f"{'unknown' if number is None else number} {noun}{'' if number == 1 else 's'}"


def _memory(figure: Figure) -> str:
    return "unknown" if figure.value is None else format_memory(figure.value) + _marked(figure)


def _size(figure: Figure) -> str:
    return "unknown" if figure.value is None else format_size(figure.value) + _marked(figure)


def _rate(figure: Figure) -> str:
    return "" if figure.value is None else f"{format_size(figure.value)}/s{_marked(figure)}"


def _marked(figure: Figure) -> str:
    return "" if figure.basis == "probed" else f" ({figure.basis})"
