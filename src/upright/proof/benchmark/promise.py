"""What a good request keeps."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class RequestPromise:
    """What a good request keeps."""

    ttft_seconds: float
    tpot_seconds: float
