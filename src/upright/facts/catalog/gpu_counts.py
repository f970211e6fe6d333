"""Boxes that no row describes, by their GPUs: 4x-rtx-5090, or of several kinds 1x-rtx-5090+2x-rtx-3090."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from upright.base.errors import CatalogError
from upright.base.units import GB, GIB
from upright.facts.catalog.near_names import near_names
from upright.facts.catalog.rows.base import Fact
from upright.facts.catalog.rows.hardware import BoxRow, GpuGroup, GpuRow
from upright.facts.catalog.typed_names import counted

_MOST = 16
"""GPUs in one machine; more are several boxes."""
_AND = "+"
_HIDDEN = 60
"""Letters of a piece that an error repeats."""
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


def of_several_kinds(name: str, find: Callable[[str], GpuRow | None]) -> bool:
    """Whether pieces are joined and one at least is a GPU: a file's name or a host's may hold the sign too."""
    pieces = name.split(_AND)
    return 1 < len(pieces) <= _MOST and any(piece.strip() and find(counted(piece.strip())[1]) for piece in pieces)


def mixed_box(name: str, find: Callable[[str], GpuRow | None], gpus: Iterable[GpuRow]) -> BoxRow:
    """`1x-rtx-5090+2x-rtx-3090`: the fastest first, as CUDA counts them. A piece that is none is told, and its like."""
    counts: dict[str, int] = {}
    kinds: dict[str, GpuRow] = {}
    known = tuple(gpus)
    for piece in name.split(_AND):
        count, gpu = _piece(piece.strip(), find, known)
        kinds[gpu.id] = gpu
        counts[gpu.id] = counts.get(gpu.id, 0) + count
    if (total := sum(counts.values())) > _MOST:
        raise CatalogError(f"{total} GPUs are more than one machine has", hint=f"{_MOST} at most; more are --nodes")
    if len(vendors := sorted({gpu.vendor for gpu in kinds.values()})) > 1:
        message = f"{' and '.join(vendors)} GPUs in one box: an engine's build serves those of one vendor"
        raise CatalogError(message, hint="name those of one vendor; the others stay idle")
    first, *others = sorted(kinds.values(), key=_cuda_order)
    if not others and (alone := box_of_gpus(f"{counts[first.id]}x-{first.id}", find)):
        return alone
    return BoxRow(
        id=_AND.join(f"{counts[gpu.id]}x-{gpu.id}" for gpu in (first, *others)),
        name=" + ".join(f"{counts[gpu.id]}x {gpu.name}" for gpu in (first, *others)),
        gpu=first.id,
        gpu_count=counts[first.id],
        more_gpus=tuple(GpuGroup(gpu=gpu.id, count=counts[gpu.id]) for gpu in others),
        nvlinks=0,
        notes=("Host processor and memory are left open, and how the GPUs are joined.",),
        grade="D",
        sources=("a class of machine: the GPU rows, counted",),
    )


def _piece(piece: str, find: Callable[[str], GpuRow | None], gpus: Iterable[GpuRow]) -> tuple[int, GpuRow]:
    count, gpu_name = counted(piece)
    gpu = find(gpu_name) if gpu_name else None
    if gpu is None:
        shown = piece if len(piece) <= _HIDDEN else f"{piece[:_HIDDEN]}…"
        close = [f"{count}x-{gpu_id}" for gpu_id in near_names(gpu_name, (row.id for row in gpus))]
        hint = f"near: {', '.join(close)}" if close and piece else "pieces are GPUs: 1x-rtx-5090+2x-rtx-3090"
        raise CatalogError(f"{shown or 'nothing'} is no number of GPUs", hint=hint)
    if gpu.unified_memory:
        raise CatalogError(
            f"{piece} shares the machine's memory: no GPU can be named beside it", hint=f"--box {gpu.id}"
        )
    return count, gpu


def _cuda_order(gpu: GpuRow) -> tuple[float, float]:
    """CUDA's own order is the fastest first, by what it computes."""
    return -(gpu.bf16_tflops.value or 0.0), -(gpu.memory_bandwidth_gb_s.value or 0.0)


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
