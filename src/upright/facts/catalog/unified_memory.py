"""GPU memory of a machine with unified memory, when the user states how much there is."""

from __future__ import annotations

from upright.base.units import GIB
from upright.facts.catalog import loader
from upright.facts.catalog.rows.hardware import GpuRow
from upright.facts.records.base import Figure
from upright.facts.records.box import Box, Gpu

_SMALL_MAC_GIB, _SMALL_MAC_SHARE = 36, 8 / 9
"""macOS gives the GPU three quarters of the memory, as the rows say, but two thirds of 36 GB and less: 21,845 of
32,768 MiB (https://github.com/ollama/ollama/issues/434). Newer ones give more."""


def unified_memory_gpus(box: Box, memory_gib: float, told_by: str = "--host-memory") -> tuple[Gpu, ...]:
    """The box's GPUs, where it has one and that one shares the system's memory; else nothing: they have their own.

    More than the catalogue's machine is sold with is not believed.
    """
    if len(box.gpus) != 1 or box.gpus[0].row is None:
        return ()
    (gpu,) = box.gpus
    row = loader.row_by_id("gpus", box.gpus[0].row)
    if not isinstance(row, GpuRow) or not row.unified_memory or gpu.memory_bytes.value is None:
        return ()
    size = min(gpu.memory_bytes.value, memory_gib * GIB)
    source = f"{told_by}, which the GPU shares"
    if box.basis == "catalog" and row.memory_gb.value is not None:
        memory_gib = min(memory_gib, row.memory_gb.value)
        smaller = row.vendor == "apple" and memory_gib <= _SMALL_MAC_GIB < row.memory_gb.value
        small = _SMALL_MAC_SHARE if smaller else 1.0
        size = small * gpu.memory_bytes.value * memory_gib / row.memory_gb.value
        source += f" as it does {row.memory_gb.value:g} GB (gpus/{row.id})"
    memory = Figure(value=int(size), basis="assumed", source=source)
    return (gpu.model_copy(update={"memory_bytes": memory, "memory_free_bytes": memory}),)
