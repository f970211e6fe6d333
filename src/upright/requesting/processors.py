"""A processor's name -> the bandwidth of its system RAM, every channel populated."""

from __future__ import annotations

from upright.planning.assumed_memory import of_processor
from upright.units import GB


def processor_bandwidth_gb(name: str) -> float | None:
    """GB/s of one socket; None if no row knows such a processor."""
    row = of_processor(name)
    return None if row is None else row.socket_bytes_per_second / GB
