"""GPU memory of a machine with unified memory, when the user states how much there is."""

from __future__ import annotations

from typing import NamedTuple

from upright.base.units import GIB, MIB
from upright.facts.catalog import loader
from upright.facts.catalog.rows.hardware import GpuRow
from upright.facts.records.base import Figure
from upright.facts.records.box import Box, Gpu

_KEPT_GIB, _KEPT_SHARE = 8, 1 / 8
"""What the system keeps at least of a Mac whose GPU is given the rest: one with 128 GiB ran with 16 kept
(https://github.com/antirez/ds4/pull/893)."""


class Granted(NamedTuple):
    """What a system would give the GPU beyond what it does by itself."""

    more_bytes: int
    command: str
    """What makes it."""


def withheld(box: Box) -> Granted | None:
    """None where GPU and system do not share a memory, or no setting moves the border."""
    if len(box.gpus) != 1 or box.gpus[0].row is None:
        return None
    (gpu,) = box.gpus
    row, granted = loader.row_by_id("gpus", box.gpus[0].row), gpu.memory_bytes.value
    if not isinstance(row, GpuRow) or row.vendor != "apple" or granted is None or row.memory_gb.value is None:
        return None
    whole = row.memory_gb.value if granted == row.memory_bytes else (box.memory_bytes.value or 0) / GIB
    limit = int((whole - max(_KEPT_GIB, whole * _KEPT_SHARE)) * 1024)
    more = limit * MIB - int(granted)
    return Granted(more, f"sudo sysctl iogpu.wired_limit_mb={limit}") if more > 0 else None


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
        size = _granted_share(row, memory_gib) * memory_gib * GIB
        source += f" as it does {row.memory_gb.value:g} GB (gpus/{row.id})"
    memory = Figure(value=int(size), basis="assumed", source=source)
    return (gpu.model_copy(update={"memory_bytes": memory, "memory_free_bytes": memory}),)


def _granted_share(row: GpuRow, memory_gib: float) -> float:
    """Of so much memory, what the system gives the GPU: macOS gives large machines more of theirs.

    As of the largest Mac of the catalogue that has no more; less than any has, as of the smallest.
    """
    alike = [row]
    if row.vendor == "apple":
        alike += [mac for mac in loader.rows("gpus").values() if isinstance(mac, GpuRow) and mac.vendor == "apple"]
    shares = {known.memory_gb.value: known.memory_bytes / GIB / (known.memory_gb.value or 1) for known in alike}
    sizes = [size for size in shares if size is not None]
    return shares[max((size for size in sizes if size <= memory_gib), default=min(sizes))]
