"""The row of speed constants for an engine, its version, GPU architecture, interconnect and image."""

from __future__ import annotations

import re
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
_GENERATION = re.compile(r"(?:==)?(apple|gfx9)(\w*)")
_OTHER_KIND = 1e9


class ChosenRow(NamedTuple):
    """A row, and whether it was made for this silicon and these wires."""

    row: SpeedRow
    at_home: bool
    of_sibling: bool = False
    """Made for these wires, and for another generation of the silicon: a step away that was measured."""

    @property
    def tells(self) -> bool:
        return self.at_home or self.of_sibling


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
    *,
    elsewhere: bool = False,
) -> ChosenRow | None:
    """A person's own row before ours, the particular before the general; None if the engine has no row at all.

    Where none was made for the silicon, that of the nearest generation; *elsewhere* asks as if none were.
    """
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
        if here and elsewhere:
            continue
        wired = on == "one" or on in row.wires
        apart = 0.0 if here else _apart(row, capability or NO_GPU)
        rank = (
            here and wired,
            wired,
            -apart,
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
    home, wired, apart = rank[:3]
    return ChosenRow(best, home, wired and 0 < -apart < _OTHER_KIND)


def _apart(row: SpeedRow, capability: str) -> float:
    """A person's own row names no published runs: nothing says how far off it is on another generation."""
    return _generations_apart(capability, row.capability) if row.fitted_on else _OTHER_KIND


def _generations_apart(capability: str, range_: str) -> float:
    """Of two makers' silicon, or of two kinds of one maker's, none is a generation of the other."""
    if named := _GENERATION.match(capability):
        other = _GENERATION.match(range_)
        if other is None or other[1] != named[1]:
            return _OTHER_KIND
        numbers = [int(match[2]) if match[2].isdigit() else 0 for match in (named, other)]
        return abs(numbers[0] - numbers[1])
    ends = [float(end) for sign in (">=", "<", "==") if (end := versions.bound(range_, sign)) and end[:1].isdigit()]
    if not capability[:1].isdigit() or not ends:
        return _OTHER_KIND
    return max(min(ends) - float(capability), float(capability) - max(ends), 0.01)
