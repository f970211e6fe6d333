"""The artifacts that may be recommended for a box, and what rules one out without planning it.

Bounds only: weights that are larger than all memory, and a speed that the bandwidth of all GPUs cannot reach.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from upright.base.units import GB, format_memory, format_size
from upright.facts import catalog
from upright.facts.catalog.rows.hardware import GpuRow
from upright.facts.catalog.rows.model import Artifact, ModelRow
from upright.facts.records.box import Box
from upright.facts.records.model import Model
from upright.models.deriving.catalogue_models import record
from upright.planning.choosing.estimated_sizes import estimated_bits, estimated_bytes
from upright.planning.choosing.ranking import FAITHFUL_BITS, faithful
from upright.planning.recommending.quality import QualityScore, QualityScores


class BoxTotals(NamedTuple):
    """What a box has in all."""

    vram_bytes: int
    ram_bytes: int
    gpu_bytes_per_second: float | None
    """Of all GPUs together; None if one is not known."""


@dataclass(frozen=True)
class Candidate:
    """One artifact of one model."""

    row: ModelRow
    artifact: Artifact
    standing: QualityScore
    bits: float | None
    """Of a routed weight, as the row says it; None if only the record tells."""

    @cached_property
    def model(self) -> Model | None:
        return record(self.row, self.artifact)

    @cached_property
    def faithful(self) -> bool:
        """By the experts of a GGUF alone: what else is in the file has more bits."""
        if self.bits is not None and self.bits < FAITHFUL_BITS:
            return False
        if self.artifact.format != "gguf" or self.artifact.size_bytes.value is None or self._experts_have_enough:
            return True
        return self.model is None or faithful(self.model)

    @property
    def _experts_have_enough(self) -> bool:
        """By the row alone, so that most records need not be made: even if all that a token visits had 16 bits."""
        total, visited = self.row.parameters.value, self.row.active_parameters.value
        size = self.artifact.size_bytes.value
        if not size or not total or not visited:
            return False
        return 8 * size - 16 * visited >= FAITHFUL_BITS * total

    @property
    def order(self) -> tuple[float, ...]:
        """Published quality first; without it size and bits. The larger the better."""
        parameters = float(self.row.parameters.value or 0)
        active = float(self.row.active_parameters.value or 0)
        scored = self.faithful and self.standing.published is not None
        if scored:
            return (1.0, self.standing.counted, self.standing.newer, parameters, active)
        return (0.0, float(self.faithful), 0.0, parameters, active)

    @property
    def bytes(self) -> int | None:
        return estimated_bytes(self.row, self.artifact)


def candidates_of(row: ModelRow, standings: QualityScores) -> list[Candidate]:
    """Of one model, as it is stored by default first."""
    return [
        Candidate(row, artifact, standings.of(row, artifact.repository), estimated_bits(row, artifact))
        for artifact in row.artifacts
    ]


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


def ruled_out(candidate: Candidate, means: BoxTotals, slowest: float | None) -> str | None:
    """Why it cannot be, by a bound; None if it must be planned."""
    room = means.vram_bytes if candidate.artifact.format != "gguf" else means.vram_bytes + means.ram_bytes
    weights = candidate.bytes
    if room == 0 and candidate.artifact.format != "gguf":
        return None  # a build for CPUs may take it
    if weights is not None and 0.97 * weights > room:
        where = "of VRAM" if candidate.artifact.format != "gguf" else "of VRAM and system RAM"
        return f"{format_size(weights)} of weights, the box has {format_memory(room)} {where}"
    active = candidate.row.active_parameters.value
    if slowest and active and candidate.bits and means.gpu_bytes_per_second:
        most = means.gpu_bytes_per_second / (active * candidate.bits / 8)
        if most < slowest:
            return f"at most {most:.0f} tok/s, if every GPU read at its full bandwidth"
    return None


def _bandwidth(row_id: str | None) -> float | None:
    row = catalog.find("gpus", row_id) if row_id else None
    if not isinstance(row, GpuRow) or row.memory_bandwidth_gb_s.value is None:
        return None
    return float(row.memory_bandwidth_gb_s.value) * GB
