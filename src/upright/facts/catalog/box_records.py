"""BoxRow -> Box: a machine that nobody probed, on the catalogue's word."""

from __future__ import annotations

from itertools import combinations

from upright.base.errors import CatalogError
from upright.base.units import GB, GIB, KIB, MIB
from upright.facts.catalog import loader
from upright.facts.catalog.rows.base import Fact
from upright.facts.catalog.rows.hardware import BoxRow, GpuRow
from upright.facts.records.base import Figure, unknown
from upright.facts.records.box import Box, Cpu, Gpu, Link, MemoryModules, NumaNode, PcieLink


def record(row: BoxRow) -> Box:
    gpu = _gpu_row(row)
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
        gpus=tuple(_gpu(index, gpu, row) for index in range(row.gpu_count)) if gpu else (),
        links=_links(row, gpu),
    )


def _gpu_row(row: BoxRow) -> GpuRow | None:
    if row.gpu is None:
        return None
    gpu = loader.row_by_id("gpus", row.gpu)
    if not isinstance(gpu, GpuRow):
        raise CatalogError(f"{row.file}: row {row.id}: gpu: no row {row.gpu} among the gpus")
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


def _links(row: BoxRow, gpu: GpuRow | None) -> tuple[Link, ...]:
    """Every pair, where the row says enough to know its path."""
    pairs = combinations(range(row.gpu_count), 2)
    if row.nvlinks:
        path = "XGMI" if gpu is not None and gpu.vendor == "amd" else f"NV{row.nvlinks}"
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
