"""The row of speed constants for an engine, its version, GPU architecture, interconnect and image."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from typing import NamedTuple

from upright.facts import catalog
from upright.facts.catalog import versions
from upright.facts.catalog.rows.speed import Interconnect, SpeedRow
from upright.facts.records.box import Box

# An unknown version is taken for the newest.
_NEWEST = "9999"
NO_GPU = "none"
"""What rows call the compute capability of a machine without a GPU."""


class ChosenRow(NamedTuple):
    """A row, and whether it was made for this silicon and these wires."""

    row: SpeedRow
    at_home: bool


def speed_row(name: str) -> SpeedRow:
    row = catalog.get("speeds", name)
    assert isinstance(row, SpeedRow)
    return row


def fitted_on(gpu: str) -> set[str]:
    """Engines that have constants of which runs on this GPU are a part."""
    rows = (row for row in catalog.rows("speeds").values() if isinstance(row, SpeedRow))
    return {row.engine for row in rows if row.home is not None and gpu in row.home.gpus}


def interconnect_of(box: Box, ranks: int) -> Interconnect:
    if ranks < 2:
        return "one"
    used = [link for link in box.links if link.a < ranks and link.b < ranks]
    return "nvlink" if used and all(link.fabric for link in used) else "pcie"


def _common(capability: str | None) -> bool:
    """Rows for any silicon were measured on NVIDIA GPUs and on processors: what has a name is another vendor's."""
    return capability is None or capability[:1].isdigit()


class AskedOf(NamedTuple):
    """Which machine and which model: a row of one kind of machine holds for these alone."""

    machine: str
    shape: str
    expert_format: str

    def held_by(self, row: SpeedRow) -> bool:
        home = row.home
        fitted = home is not None and self.shape in home.shapes and self.expert_format in home.formats
        return fitted and row.machine == self.machine


def machine_of(box: Box) -> str:
    """`8x rtx-pro-6000-server`, or the processor and its cores: boxes that are named alike are alike."""
    if not box.gpus:
        return f"{box.cpu.name}, {box.cpu.cores or '?'} cores"
    return " + ".join(f"{count}x {name}" for name, count in Counter(gpu.row or gpu.name for gpu in box.gpus).items())


def choose_row(
    engine: str,
    version: str | None,
    capability: str | None,
    on: Interconnect,
    patches: Collection[str] = (),
    asked: AskedOf | None = None,
) -> ChosenRow | None:
    """A person's own row before ours, the particular before the general; None if the engine has no row at all."""
    ranked = []
    for row in catalog.rows("speeds").values():
        assert isinstance(row, SpeedRow)
        if row.engine != engine or not set(row.patches) <= set(patches):
            continue
        if not versions.in_range(version or _NEWEST, row.versions):
            continue
        if row.machine is not None and (asked is None or not asked.held_by(row)):
            continue
        here = versions.in_range(capability or NO_GPU, row.capability) if row.capability != "*" else _common(capability)
        wired = on == "one" or on in row.wires
        rank = (
            here and wired,
            wired,
            here,
            row.owner == "user",
            row.machine is not None,
            row.capability != "*",
            len(row.patches),
            row.versions != "*",
        )
        ranked.append((rank, row))
    if not ranked:
        return None
    rank, best = max(ranked, key=lambda pair: pair[0])
    return ChosenRow(best, rank[0])
