"""The bandwidth of system RAM where neither owner nor probe gave it: by the processor, or by a default.

A speed that is only missing a figure which people can look up is shown with an assumption, and the assumption with it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, cast

from upright.base.units import GB, GIB, format_memory
from upright.facts import catalog
from upright.facts.records.base import Figure
from upright.facts.records.box import Box
from upright.facts.records.plan import Note, Plan

if TYPE_CHECKING:
    from upright.facts.catalog.rows.memory_platform import MemoryPlatformRow

RAM_ASSUMED = "ram-assumed"
# Populated channels of one or two sockets, and data rates of modules that are sold, in MT/s.
_CHANNELS = (1, 2, 4, 6, 8, 12, 16, 24)
_RATES = (
    1866, 2133, 2400, 2666, 2933, 3200, 3600, 4000, 4400, 4800, 5200, 5600, 6000, 6400, 6600, 7200, 8000, 8533, 8800,
)  # fmt: skip


def bandwidth_known(box: Box) -> bool:
    figures = (box.memory_bandwidth_measured_bytes_per_second, box.memory_bandwidth_bytes_per_second)
    return any(figure.value is not None for figure in figures)


def host_bandwidth(box: Box) -> tuple[float | None, bool]:
    """Of one socket."""
    sockets = box.cpu.sockets or 1
    if box.memory_bandwidth_measured_bytes_per_second.value is not None:
        return float(box.memory_bandwidth_measured_bytes_per_second.value) / sockets, True
    bandwidth = box.memory_bandwidth_bytes_per_second.value
    return (None if bandwidth is None else float(bandwidth) / sockets), False


def assumed_bandwidth(box: Box) -> Figure:
    """By the processor's name if a row knows it, else by how much system RAM there is."""
    named = processor_row(box.cpu.name)
    row, sockets = (named, box.cpu.sockets or 1) if named else (_by_amount(box), 1)
    memory_text = f"{row.words} a socket" if sockets > 1 else row.words
    why = f"{memory_text}, by {'the processor' if named else 'the amount of RAM'} (memory_platforms/{row.id})"
    return Figure(value=row.socket_bytes_per_second * sockets, basis="assumed", source=why)


def processor_row(name: str) -> MemoryPlatformRow | None:
    """The row of a processor's name, as the machine or its owner writes it."""
    return next(
        (row for row in _rows() if any(re.search(pattern, name, re.IGNORECASE) for pattern in row.processors)), None
    )


def theoretical(gb_per_second: float) -> bool:
    """Whether channels of modules have just this bandwidth; a measurement gives less."""
    exact = gb_per_second != int(gb_per_second)
    products = (channels * rate * 8 / 1e3 for channels in _CHANNELS for rate in _RATES)
    if exact:
        return any(abs(product - gb_per_second) < 0.06 for product in products)
    return any(gb_per_second in (int(product), round(product)) for product in products)


def ram_note(plan: Plan, box: Box) -> Note | None:
    """What was assumed, where the speed of this plan depends on it."""
    on_host = any(place.device == "host" for place in plan.expert_places) or not box.gpus
    if plan.speed is None or not on_host or bandwidth_known(box):
        return None
    figure = assumed_bandwidth(box)
    amount = sum(line.bytes for line in plan.ledger if line.device == "host") if box.memory_bytes.value is None else 0
    message = f"system RAM is assumed at {(figure.value or 0) / GB:.0f} GB/s: {figure.source}; decode follows it"
    if amount:
        assumed = message.removeprefix("system RAM ")
        message = f"system RAM is not specified: {format_memory(amount)} of it are used, and it {assumed}"
    return Note(code=RAM_ASSUMED, message=message, remedy="--host-bandwidth 8xDDR5-6400, or the processor's name")


def _by_amount(box: Box) -> MemoryPlatformRow:
    amount = (box.memory_bytes.value or 0) / GIB
    defaults = [row for row in _rows() if row.from_gib is not None and row.from_gib <= amount]
    return max(defaults, key=lambda row: row.from_gib or 0.0)


def _rows() -> tuple[MemoryPlatformRow, ...]:
    return cast("tuple[MemoryPlatformRow, ...]", tuple(catalog.rows("memory_platforms").values()))
