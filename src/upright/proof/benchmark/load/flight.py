"""How the generator itself fared."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Flight:
    """How the generator itself fared."""

    in_flight_peak: int = 0
    in_flight_mean: float = 0.0
    lag_seconds: float = 0.0
    cpu_seconds: float = 0.0
    gone: bool = False
    """The server could no longer be reached."""
    reopened: int = 0
    """Requests that were sent again because the server had closed an idle connection without a word."""
