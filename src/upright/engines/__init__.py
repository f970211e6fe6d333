"""One folder per engine; `engine_named` finds it. An engine knows its flags and logs, and nothing about machines."""

from __future__ import annotations

from upright.engines.contract import Engine
from upright.engines.ik_llamacpp.flags import IkLlamaCpp
from upright.engines.llamacpp.flags import LlamaCpp
from upright.engines.sglang.flags import Sglang
from upright.engines.vllm.flags import Vllm
from upright.errors import EngineError

ENGINES: dict[str, Engine] = {engine.name: engine for engine in (Vllm(), Sglang(), LlamaCpp(), IkLlamaCpp())}


def engine_named(name: str) -> Engine:
    if name not in ENGINES:
        raise EngineError(f"no engine named {name}", hint=f"known: {', '.join(ENGINES)}")
    return ENGINES[name]
