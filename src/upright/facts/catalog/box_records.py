"""BoxRow -> Box: a machine that nobody probed, on the catalogue's word."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from upright.base.errors import CatalogError
from upright.base.units import GB, GIB, KIB, MIB
from upright.facts.catalog import loader
from upright.facts.catalog.rows.base import Fact
from upright.facts.catalog.rows.hardware import BoxRow, GpuRow
from upright.facts.catalog.typed_names import PlainGpu
from upright.facts.catalog.unified_memory import unified_memory_gpus
from upright.facts.records.base import Figure, unknown
from upright.facts.records.box import Box, Cpu, Gpu, Link, MemoryModules, NumaNode, PcieLink


def record(row: BoxRow, told_gb: float | None = None) -> Box:
    """*told_gb*: memory that its name tells; a Mac is sold with less than the row's."""
    box = _record(row)
    told = told_gb if told_gb is not None and row.gpu is not None else None
    gpus = unified_memory_gpus(box, told, "the name") if told is not None and told < (box_memory_gib(row) or 0) else ()
    if not gpus or told is None:
        return box
    memory = Figure(value=int(told * GIB), basis="assumed", source="the name tells it")
    return box.model_copy(update={"gpus": gpus, "memory_bytes": memory, "memory_available_bytes": memory})


def box_memory_gib(row: BoxRow) -> float | None:
    return row.memory_gib.value if row.memory_gib else None


def plain_record(count: int, plain: PlainGpu) -> Box:
    """GPUs of which nothing but these two figures is known."""
    why = unknown("only memory and bandwidth were named")
    memory = Figure(value=int(plain.memory_gb * GIB * _LEFT_BY_DRIVERS), basis="assumed", source=_OF_PLAIN)
    rate = Figure(value=int(plain.bandwidth_gb_s * GB), basis="assumed", source="as it was named")
    return Box(
        name=f"{count}x-{plain.memory_gb:g}gb-{plain.bandwidth_gb_s:g}gb-s",
        basis="catalog",
        cpu=Cpu(name="unknown", sockets=None, cores=None, threads=None),
        memory_bytes=why,
        memory_available_bytes=why,
        gpus=tuple(
            Gpu(
                index=index,
                name=f"a GPU of {plain.memory_gb:g} GB at {plain.bandwidth_gb_s:g} GB/s",
                compute_capability=None,
                memory_bytes=memory,
                memory_free_bytes=_idle(memory),
                memory_bandwidth_bytes_per_second=rate,
                shared_memory_block_bytes=why,
                pcie=PcieLink(generation=why, generation_max=why, width_lanes=why, width_max_lanes=why),
                bar1_bytes=why,
                power_limit_watts=why,
                power_limit_max_watts=why,
            )
            for index in range(count)
        ),
    )


_LEFT_BY_DRIVERS = 0.985
_OF_PLAIN = "as it was named, less the 1.5 % that drivers keep of most cards in the catalogue"


def _record(row: BoxRow) -> Box:
    kinds = [kind for group in row.gpu_groups for kind in [_gpu_row(row, group.gpu)] * group.count]
    memory = _figure(row.memory_gib, row, GIB)
    return Box(
        name=row.id,
        basis="catalog",
        cpu=Cpu(
            name=row.cpu or "unknown",
            sockets=row.cpu_sockets,
            cores=row.cpu_cores,
            threads=row.cpu_threads,
            flags=row.cpu_flags,
        ),
        memory_bytes=memory,
        memory_available_bytes=_idle(memory),
        memory_modules=MemoryModules(
            kind=row.memory_kind,
            count=_unsaid(row),
            channels=_plain(row.memory_channels, row),
            speed_mega_transfers_per_second=_plain(row.memory_mt_s, row),
        ),
        memory_bandwidth_bytes_per_second=_figure(row.memory_bandwidth_gb_s, row, GB),
        numa=tuple(NumaNode(index=node, cpus="", memory_bytes=_unsaid(row)) for node in range(row.numa_nodes or 0)),
        gpus=tuple(_gpu(index, kind, row) for index, kind in enumerate(kinds)),
        links=_links(row, kinds),
    )


def _gpu_row(row: BoxRow, name: str) -> GpuRow:
    gpu = loader.row_by_id("gpus", name)
    if not isinstance(gpu, GpuRow):
        raise CatalogError(f"{row.file}: row {row.id}: gpu: no row {name} among the gpus")
    return gpu


def _gpu(index: int, gpu: GpuRow, box: BoxRow) -> Gpu:
    where = f"gpus/{gpu.id}"
    memory = gpu.memory_reported_mib.figure(where, MIB)
    if memory.value is None:
        memory = gpu.memory_gb.figure(where, GB)
    return Gpu(
        index=index,
        name=gpu.device_names[0],
        row=gpu.id,
        compute_capability=gpu.compute_capability,
        memory_bytes=memory,
        memory_free_bytes=_idle(memory),
        memory_bandwidth_bytes_per_second=gpu.memory_bandwidth_gb_s.figure(where, GB),
        shared_memory_block_bytes=gpu.shared_memory_block_kib.figure(where, KIB),
        numa_node=box.gpu_numa[index] if box.gpu_numa else None,
        pcie=PcieLink(
            generation=_unsaid(box),
            generation_max=_plain(gpu.pcie_generation, gpu),
            width_lanes=_unsaid(box),
            width_max_lanes=_plain(gpu.pcie_lanes, gpu),
        ),
        bar1_bytes=_unsaid(box),
        power_limit_watts=_unsaid(box),
        power_limit_max_watts=gpu.power_w.figure(where),
    )


def _links(row: BoxRow, kinds: Sequence[GpuRow]) -> tuple[Link, ...]:
    """Every pair, where the row says enough to know its path."""
    pairs = combinations(range(len(kinds)), 2)
    if row.nvlinks:
        path = "XGMI" if kinds and kinds[0].vendor == "amd" else f"NV{row.nvlinks}"
        return tuple(Link(a=a, b=b, path=path) for a, b in pairs)
    if not row.gpu_numa:
        return ()
    return tuple(Link(a=a, b=b, path=_path(row, a, b)) for a, b in pairs)


def _path(row: BoxRow, a: int, b: int) -> str:
    if (a, b) in row.switch_pairs:
        return "PIX"
    return "NODE" if row.gpu_numa[a] == row.gpu_numa[b] else "SYS"


def _figure(fact: Fact | None, row: BoxRow, factor: float) -> Figure:
    return fact.figure(f"boxes/{row.id}", factor) if fact else _unsaid(row)


def _plain(value: int | None, row: BoxRow | GpuRow) -> Figure:
    if value is None:
        return _unsaid(row)
    return Figure(value=value, basis="catalog", source=f"{row.id}: {row.sources[0]} (grade {row.grade})")


def _unsaid(row: BoxRow | GpuRow) -> Figure:
    return unknown(f"the row {row.id} does not say")


def _idle(memory: Figure) -> Figure:
    if memory.value is None:
        return memory
    return Figure(value=memory.value, basis="assumed", source="nothing else runs there")
