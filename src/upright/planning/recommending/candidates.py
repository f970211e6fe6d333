"""Models that may be recommended for a box, and what rules one out without planning it.

Bounds only: weights that are larger than all memory, and a speed that the bandwidth of all GPUs cannot reach.
"""

from __future__ import annotations

from typing import NamedTuple

from upright.base.units import GB, format_memory, format_size
from upright.facts import catalog
from upright.facts.catalog.rows.hardware import GpuRow
from upright.facts.catalog.rows.model import Artifact, ModelRow
from upright.facts.records.box import Box
from upright.planning.choosing.estimated_sizes import estimated_bits, estimated_bytes


class BoxTotals(NamedTuple):
    """What a box has in all."""

    vram_bytes: int
    ram_bytes: int
    gpu_bytes_per_second: float | None
    """Of all GPUs together; None if one is not known."""


def box_totals(box: Box) -> BoxTotals:
    """Everything that a box has, with nothing taken off: a bound must not refuse what fits."""
    bandwidths = [_bandwidth(gpu.row) for gpu in box.gpus]
    ram = box.memory_available_bytes.value or box.memory_bytes.value or 0
    return BoxTotals(
        vram_bytes=int(sum(gpu.memory_bytes.value or 0 for gpu in box.gpus)),
        ram_bytes=int(ram),
        gpu_bytes_per_second=sum(bandwidth for bandwidth in bandwidths if bandwidth)
        if all(bandwidths) and bandwidths
        else None,
    )


def ruled_out(row: ModelRow, artifact: Artifact, means: BoxTotals, slowest: float | None) -> str | None:
    """Why it cannot be, by a bound; None if it must be planned."""
    room = means.vram_bytes if artifact.format != "gguf" else means.vram_bytes + means.ram_bytes
    weights = estimated_bytes(row, artifact)
    if room == 0 and artifact.format != "gguf":
        return None  # a build for CPUs may take it
    if weights is not None and 0.97 * weights > room:
        where = "of VRAM" if artifact.format != "gguf" else "of VRAM and system RAM"
        return f"{format_size(weights)} of weights, the box has {format_memory(room)} {where}"
    active, bits = row.active_parameters.value, estimated_bits(row, artifact)
    if slowest and active and bits and means.gpu_bytes_per_second:
        most = means.gpu_bytes_per_second / (active * bits / 8)
        if most < slowest:
            return f"at most {most:.0f} tok/s, if every GPU read at its full bandwidth"
    return None


def _bandwidth(row_id: str | None) -> float | None:
    row = catalog.find("gpus", row_id) if row_id else None
    if not isinstance(row, GpuRow) or row.memory_bandwidth_gb_s.value is None:
        return None
    return float(row.memory_bandwidth_gb_s.value) * GB
