"""The row of speed constants for an engine, its version, GPU architecture, interconnect and image."""

from __future__ import annotations

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


def choose_row(
    engine: str, version: str | None, capability: str | None, on: Interconnect, patches: Collection[str] = ()
) -> ChosenRow | None:
    """A person's own row before ours, the particular before the general; None if the engine has no row at all."""
    ranked = []
    for row in catalog.rows("speeds").values():
        assert isinstance(row, SpeedRow)
        if row.engine != engine or not set(row.patches) <= set(patches):
            continue
        if not versions.in_range(version or _NEWEST, row.versions):
            continue
        here = versions.in_range(capability or NO_GPU, row.capability) if row.capability != "*" else _common(capability)
        wired = on == "one" or on in row.wires
        rank = (
            here and wired,
            wired,
            here,
            row.owner == "user",
            row.capability != "*",
            len(row.patches),
            row.versions != "*",
        )
        ranked.append((rank, row))
    if not ranked:
        return None
    rank, best = max(ranked, key=lambda pair: pair[0])
    return ChosenRow(best, rank[0])
