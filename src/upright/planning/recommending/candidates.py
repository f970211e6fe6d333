"""Models that may be recommended for a box, and what rules one out without planning it.

Bounds only: weights that are larger than all memory, and a speed that the bandwidth of all GPUs cannot reach.
"""

from __future__ import annotations

from upright.base.units import GB, format_memory, format_size
from upright.facts import catalog
from upright.facts.catalog.rows.hardware import GpuRow
from upright.facts.catalog.rows.model import Artifact, ModelRow
from upright.facts.records.box import Box
from upright.planning.choosing.estimated_sizes import all_memory, estimated_bits, estimated_bytes


def ruled_out(row: ModelRow, artifact: Artifact, box: Box, slowest: float | None) -> str | None:
    """Why it cannot be, by a bound; None if it must be planned."""
    room, weights = all_memory(box, artifact.format), estimated_bytes(row, artifact)
    if weights is not None and 0.97 * weights > room:
        where = "of VRAM" if artifact.format != "gguf" else "of VRAM and system RAM"
        return f"{format_size(weights)} of weights, the box has {format_memory(room)} {where}"
    active, bits = row.active_parameters.value, estimated_bits(row, artifact)
    reached = _all_bandwidth(box)
    if slowest and active and bits and reached:
        most = reached / (active * bits / 8)
        if most < slowest:
            return f"at most {most:.0f} tok/s, if every GPU read at its full bandwidth"
    return None


def _all_bandwidth(box: Box) -> float | None:
    """Bytes a second of all GPUs together; None if one is not known."""
    bandwidths = [_bandwidth(gpu.row) for gpu in box.gpus]
    known = [bandwidth for bandwidth in bandwidths if bandwidth]
    return sum(known) if known and len(known) == len(bandwidths) else None


def _bandwidth(row_id: str | None) -> float | None:
    row = catalog.find("gpus", row_id) if row_id else None
    if not isinstance(row, GpuRow) or row.memory_bandwidth_gb_s.value is None:
        return None
    return float(row.memory_bandwidth_gb_s.value) * GB
