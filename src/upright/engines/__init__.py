"""ENGINES, the only registry: ours, a folder each, and those that other packages bring (`upright.engines`).

An engine is loaded when it is asked for. It knows its flags, its memory and its log, and nothing about machines.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING

from upright.base.errors import EngineError
from upright.base.extensions import Extension, extensions

if TYPE_CHECKING:
    from upright.engines.contract import Engine

OURS = {
    "vllm": "vllm",
    "sglang": "sglang",
    "llama.cpp": "llamacpp",
    "ik_llama.cpp": "ik_llamacpp",
    "ktransformers": "ktransformers",
    "mlx": "mlx",
}
"""Name -> folder, in the order in which they are offered."""


class _Registry(Mapping[str, "Engine"]):
    """Names without loading, engines when they are asked for."""

    def __init__(self) -> None:
        self._loaded: dict[str, Engine] = {}

    def __getitem__(self, name: str) -> Engine:
        if name not in self._loaded:
            if name in OURS:
                self._loaded[name] = import_module(f"upright.engines.{OURS[name]}").ENGINE
            else:
                self._loaded[name] = _brought(extensions()[name])
        return self._loaded[name]

    def __contains__(self, name: object) -> bool:
        return name in OURS or name in extensions()

    def __iter__(self) -> Iterator[str]:
        yield from OURS
        yield from (name for name in extensions() if name not in OURS)

    def __len__(self) -> int:
        return sum(1 for _ in self)


ENGINES: Mapping[str, Engine] = _Registry()


def engine_named(name: str) -> Engine:
    if name not in ENGINES:
        raise EngineError(f"no engine named {name}", hint=f"known: {', '.join(ENGINES)}")
    return ENGINES[name]


def has_slots(name: str) -> bool:
    """Whether each request has a slot with a context of its own; never of a router, which is no engine."""
    engine = ENGINES.get(name)
    return engine is not None and engine.http.slots


def first_with_slots() -> str | None:
    """The first engine whose requests have slots."""
    return next((name for name in ENGINES if has_slots(name)), None)


def _brought(extension: Extension) -> Engine:
    """Another package's code runs here, because a person installed it; what it breaks bears its name."""
    from upright.engines.contract import Engine

    hint = f"mend or remove the package {extension.package}"
    try:
        engine = getattr(import_module(extension.module), extension.attribute)
    except Exception as error:
        raise EngineError(f"the engine {extension.name} cannot be loaded: {error!r}", hint=hint) from None
    if not isinstance(engine, Engine) or engine.name != extension.name:
        known = f"{extension.module}:{extension.attribute}"
        raise EngineError(f"{known} is no engine named {extension.name}", hint=hint)
    return engine
