"""One file per engine; `engine_named` finds it. An engine knows its flags and endpoints, and nothing about machines."""

from __future__ import annotations

from upright.engines.engine import Engine
from upright.engines.llamacpp import LlamaCpp
from upright.errors import EngineError

ENGINES: dict[str, Engine] = {engine.name: engine for engine in (LlamaCpp(),)}


def engine_named(name: str) -> Engine:
    if name not in ENGINES:
        raise EngineError(f"no engine named {name}", hint=f"known: {', '.join(ENGINES)}")
    return ENGINES[name]
