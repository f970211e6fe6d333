"""A processor's name -> the bandwidth of its system RAM, every channel populated."""

from __future__ import annotations

from upright.base.units import GB, Bandwidth
from upright.planning.speed.assumed_memory import of_processor


def processor_bandwidth_gb(name: str) -> Bandwidth | None:
    """GB/s of one socket; None if no row knows such a processor."""
    row = of_processor(name)
    return None if row is None else Bandwidth(row.socket_bytes_per_second / GB)
