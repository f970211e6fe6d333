"""Which engine loads the tensor types of ik_llama.cpp, and which refuses them."""

from __future__ import annotations

from upright.engines import ENGINES
from upright.engines.facets.spread import Layers


def engine_loading_fork_types() -> str | None:
    """The engine that loads them."""
    return next((name for name, layers in _layered().items() if layers.fork_types), None)


def engine_refusing_fork_types() -> str | None:
    """The mainline, which refuses them."""
    return next((name for name, layers in _layered().items() if not layers.fork_types), None)


def _layered() -> dict[str, Layers]:
    return {name: spread for name, engine in ENGINES.items() if isinstance(spread := engine.spread, Layers)}
