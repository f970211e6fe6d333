"""One file per engine; `engine_named` finds it. An engine knows its flags and endpoints, and nothing about machines."""

from __future__ import annotations

from upright.engines.engine import Engine
from upright.engines.ik_llamacpp import IkLlamaCpp
from upright.engines.llamacpp import LlamaCpp
from upright.engines.sglang import Sglang
from upright.engines.vllm import Vllm
from upright.errors import EngineError

ENGINES: dict[str, Engine] = {engine.name: engine for engine in (Vllm(), Sglang(), LlamaCpp(), IkLlamaCpp())}


def engine_named(name: str) -> Engine:
    if name not in ENGINES:
        raise EngineError(f"no engine named {name}", hint=f"known: {', '.join(ENGINES)}")
    return ENGINES[name]
