"""Boxes by a number of GPUs, such as 4x-rtx-5090, that no row describes."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from upright.base.units import GB, GIB
from upright.facts.catalog.rows.base import Fact
from upright.facts.catalog.rows.hardware import BoxRow, GpuRow
from upright.facts.catalog.typed_names import counted

_MOST = 16
"""GPUs in one machine; more are several boxes."""
_BOARD = 8
"""GPUs on a board with NVLink."""


def near_gpu_counts(name: str, gpus: Iterable[GpuRow]) -> list[str]:
    """So many of each GPU as the name says, or as a board carries: what was perhaps meant by one that is none."""
    told, _ = counted(name)
    count = min(told, _MOST) if told > 1 else None
    return [f"{count or (_BOARD if gpu.board_nvlinks else 1)}x-{gpu.id}" for gpu in gpus]


def box_of_gpus(name: str, find: Callable[[str], GpuRow | None]) -> BoxRow | None:
    """None if that is not a number of GPUs that `find` knows; a GPU's name alone is one of it."""
    count, gpu_name = counted(name)
    if count > _MOST or (gpu := find(gpu_name)) is None:
        return None
    links = gpu.board_nvlinks
    notes = ["Host processor and memory are left open."]
    if links is None:
        notes.append("How the GPUs are joined is left open.")
    return BoxRow(
        id=f"{count}x-{gpu.id}",
        name=f"{count}x {gpu.name}",
        gpu=gpu.id,
        gpu_count=count,
        memory_gib=_shared_memory(gpu) if count == 1 else None,
        nvlinks=int(links.value or 0) if links else 0,
        notes=tuple(notes),
        grade="D",
        sources=("a class of machine: the GPU row, counted",),
    )


def boxes_counted(
    name: str, box: Callable[[str], BoxRow | None], gpu: Callable[[str], GpuRow | None]
) -> tuple[int, str] | None:
    """How many, and the name of one: of a box that a row describes, or of a GPU that is a machine of its own."""
    count, machine = counted(name)
    if count < 2 or box(name) is not None:
        return None
    if (one := box(machine)) is not None:
        return count, one.id
    soldered = gpu(machine)
    return (count, f"1x-{soldered.id}") if soldered is not None and soldered.unified_memory else None


def _shared_memory(gpu: GpuRow) -> Fact | None:
    """System RAM of a machine whose GPU has no other memory."""
    sold = gpu.memory_gb
    if not gpu.unified_memory or sold.value is None:
        return None
    return Fact(value=sold.value * GB / GIB, grade=sold.grade, source=sold.source, note="GPU and system share it")
