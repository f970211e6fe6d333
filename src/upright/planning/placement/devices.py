"""Box -> the devices that bytes can be put on."""

from __future__ import annotations

from math import ceil
from typing import NamedTuple

from upright.base.units import GB, GIB, format_memory
from upright.facts import catalog
from upright.facts.catalog.rows.hardware import GpuRow
from upright.facts.records.base import Basis, Figure
from upright.facts.records.box import Box, Gpu
from upright.facts.records.plan import Objection
from upright.planning.memory.overhead import driver_bytes

HOST = "host"
# What the system and its page cache should keep of system RAM.
HOST_RESERVE = 0.03
# What system, page cache and an engine's start need where GPU and system share a memory: at 0.70 of 119 GiB a start
# went 29 GiB over its share (https://github.com/vllm-project/vllm/issues/46307); 0.85 is the most that recipes run.
UNIFIED_RESERVE = 0.10
# Any machine has this much for an engine's process. What needs more is not refused where nobody said how much there is:
# it is asked for.
LEAST_HOST_BYTES = 16 * GIB
RAM_NOT_SPECIFIED = "ram-not-specified"
RAM_UNSAID = "system RAM is not specified: only what any such machine has for a process is counted"
_SOLD_GIB = (16, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048)


class Device(NamedTuple):
    """A GPU, or system RAM."""

    name: str
    reported_bytes: int
    """What nvidia-smi shows."""
    cuda_bytes: int
    """What CUDA shows: less what the driver keeps."""
    capability: str | None
    basis: Basis
    unified: bool = False
    """The GPU has no memory of its own."""
    bytes_per_second: float = 0.0
    """Bandwidth of its memory; 0 if not known."""


NO_GPU = Device(name="gpu0", reported_bytes=0, cuda_bytes=0, capability=None, basis="assumed")


def gpus(box: Box) -> tuple[Device, ...]:
    return tuple(_gpu(gpu) for gpu in box.gpus)


def host_bytes(box: Box) -> Figure:
    """Memory a new process can have, or the whole if nobody looked."""
    if box.memory_available_bytes.value is not None:
        return box.memory_available_bytes
    return box.memory_bytes


def ram_not_specified(needed_bytes: int) -> Objection:
    """Unknown is not no: how much is needed, and a question."""
    return Objection(
        code=RAM_NOT_SPECIFIED,
        message=(
            f"about {format_memory(needed_bytes)} of system RAM are needed, and how much this box has is not specified"
        ),
        device=HOST,
        remedy=f"--ram {sold_with(needed_bytes)}GB",
    )


def sold_with(needed_bytes: float) -> int:
    """The least GB that machines are sold with in which so much is left beside the system."""
    wanted = needed_bytes / (1 - HOST_RESERVE) / GIB
    return next((amount for amount in _SOLD_GIB if amount >= wanted), ceil(wanted / 1024) * 1024)


def same_kind(devices: tuple[Device, ...]) -> bool:
    return len({(device.reported_bytes, device.capability) for device in devices}) <= 1


def _gpu(gpu: Gpu) -> Device:
    row = catalog.find("gpus", gpu.row) if gpu.row else None
    unified = isinstance(row, GpuRow) and row.unified_memory
    total = int(gpu.memory_bytes.value or 0)
    kept = 0 if unified else min(driver_bytes(), total)
    return Device(
        name=f"gpu{gpu.index}",
        reported_bytes=total,
        cuda_bytes=total - kept,
        capability=gpu.compute_capability,
        basis=gpu.memory_bytes.basis or "assumed",
        unified=unified,
        bytes_per_second=float(gpu.memory_bandwidth_bytes_per_second.value or _bandwidth(row)),
    )


def _bandwidth(row: object) -> float:
    return (row.memory_bandwidth_gb_s.value or 0.0) * GB if isinstance(row, GpuRow) else 0.0
