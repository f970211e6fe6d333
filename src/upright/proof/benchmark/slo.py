"""The SLO of a request: TTFT and TPOT."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class RequestSlo:
    """What a good request keeps."""

    ttft_seconds: float
    tpot_seconds: float
