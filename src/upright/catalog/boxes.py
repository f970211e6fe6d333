"""BoxRow -> Box: a machine that nobody probed, on the catalogue's word."""

from __future__ import annotations

from upright.catalog.loader import rows
from upright.catalog.rows.hardware import BoxRow, GpuRow
from upright.errors import CatalogError
from upright.records.base import Figure, unknown
from upright.records.box import Box, Cpu, Gpu
from upright.units import GIB, MIB


def record(row: BoxRow) -> Box:
    gpu = _gpu_row(row)
    memory = unknown(f"boxes/{row.id} does not say")
    if row.memory_gib is not None:
        memory = row.memory_gib.figure(f"boxes/{row.id}", GIB)
    return Box(
        name=row.id,
        basis="catalog",
        cpu=Cpu(
            name=row.cpu or "unknown",
            sockets=row.cpu_sockets or 1,
            cores=row.cpu_cores or 0,
            threads=row.cpu_threads or 0,
            flags=row.cpu_flags,
        ),
        memory_bytes=memory,
        memory_available_bytes=_idle(memory),
        gpus=tuple(_gpu(index, gpu) for index in range(row.gpu_count)) if gpu else (),
    )


def _gpu_row(row: BoxRow) -> GpuRow | None:
    if row.gpu is None:
        return None
    found = rows("gpus").get(row.gpu)
    if not isinstance(found, GpuRow):
        raise CatalogError(f"{row.file}: row {row.id}: gpu: no row {row.gpu} among the gpus")
    return found


def _gpu(index: int, row: GpuRow) -> Gpu:
    where = f"gpus/{row.id}"
    memory = row.memory_reported_mib.figure(where, MIB)
    if memory.value is None:
        memory = row.memory_gb.figure(where, 1000**3)
    return Gpu(
        index=index,
        name=row.device_names[0],
        row=row.id,
        compute_capability=row.compute_capability,
        memory_bytes=memory,
        memory_free_bytes=_idle(memory),
    )


def _idle(memory: Figure) -> Figure:
    if memory.value is None:
        return memory
    return Figure(value=memory.value, basis="assumed", source="nothing else runs there")
