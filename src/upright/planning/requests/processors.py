"""The bandwidth of system RAM by a processor's name, every channel populated."""

from __future__ import annotations

from upright.base.units import GB, Bandwidth
from upright.planning.speed.assumed_bandwidth import processor_row


def processor_bandwidth_gb(name: str) -> Bandwidth | None:
    """GB/s of one socket; None if no row knows such a processor."""
    row = processor_row(name)
    return None if row is None else Bandwidth(row.socket_bytes_per_second / GB)
