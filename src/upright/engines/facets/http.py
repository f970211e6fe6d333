"""Where an engine's server is asked, and how it introduces itself."""

from __future__ import annotations

from dataclasses import dataclass

from upright.records.recipe import KeyWay


@dataclass(frozen=True)
class Http:
    """An engine's own HTTP server."""

    health_path: str
    metrics_path: str | None
    """None if it exports none."""
    metrics_guarded: bool
    """Whether its metrics want the API key."""
    key_way: KeyWay
    """How it takes the API key without showing it in a process listing."""
