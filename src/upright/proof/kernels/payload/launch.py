"""Launcher + arguments -> every kernel launch it would make, and Triton's own binding of each."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.runtime.driver import driver
from triton.runtime.jit import JITFunction

from .standins import tried
from .tensors import DTYPES, FakeTensor, NotKnownError


@dataclass
class Launch:
    """One `kernel[grid](...)`, before anything is compiled."""

    kernel: Any
    arguments: tuple[Any, ...]
    options: dict[str, Any]
    group: int | None = None
    """Of an autotuned kernel: launches of one group are the configurations that one is chosen from."""


@dataclass
class Bound:
    """What Triton would compile: argument types, constants, alignment, and the options of its backend."""

    signature: Any
    constants: Any
    attributes: Any
    options: Any


def capture(module: str, launcher: str, arguments: Mapping[str, Any]) -> list[Launch]:
    """Runs the engine's own launcher with every kernel's `run` replaced by a note of what was asked."""
    space = importlib.import_module(module).__dict__
    launches: list[Launch] = []

    def note(kernel: Any, *args: Any, grid: Any, warmup: bool, **options: Any) -> None:
        launches.append(Launch(kernel, args, options, tried.group if tried.configurations is not None else None))

    function: Callable[..., Any] = space[launcher]
    original = JITFunction.run
    JITFunction.run = note
    try:
        function(**{name: build(spec, space) for name, spec in arguments.items()})
    finally:
        JITFunction.run = original
    if not launches:
        raise NotKnownError(f"{launcher} launched no Triton kernel for these shapes")
    return launches


def returned(module: str, function: str, arguments: Mapping[str, Any]) -> Any:
    """What a host function answers, for one that decides and does not launch."""
    space = importlib.import_module(module).__dict__
    return space[function](**{name: build(spec, space) for name, spec in arguments.items()})


def build(spec: Any, space: Mapping[str, Any]) -> Any:
    """An argument from its description; see `upright.proof.kernels.capture` for the spellings."""
    if not isinstance(spec, dict):
        return [build(member, space) for member in spec] if isinstance(spec, list) else spec
    ((kind, content),) = ((k, v) for k, v in spec.items() if k not in ("shape", "strides"))
    if kind == "tensor":
        return FakeTensor(content, spec["shape"], spec.get("strides"))
    if kind == "dtype":
        return DTYPES[content]
    if kind == "tl":
        return getattr(tl, content)
    if kind == "dict":
        return dict(content)
    if kind == "name":
        resolved: Any = space
        for part in content.split("."):
            resolved = resolved[part] if isinstance(resolved, Mapping) else getattr(resolved, part)
        return resolved
    raise NotKnownError(f"an argument of kind {kind} cannot be built")


def bind(launch: Launch, capability: int) -> Bound:
    """Triton's own specialisation: pointer types, divisibility by 16, ones and Nones as constants."""
    driver.set_active(_NoGpu(capability))
    bound: list[Bound] = []

    def keep(_key: Any, signature: Any, _device: Any, constants: Any, options: Any, attributes: Any, _w: Any) -> None:
        bound.append(Bound(signature, constants, attributes, options))

    launch.kernel._do_compile = keep
    try:
        launch.kernel.run(*launch.arguments, grid=(1,), warmup=True, **launch.options)
    finally:
        del launch.kernel._do_compile
    if not bound:
        raise NotKnownError("this Triton binds arguments in a way that is not known (3.5 to 3.9 are)")
    return bound[0]


class _NoGpu:
    """As much of a driver as binding asks for."""

    def __init__(self, capability: int) -> None:
        self._target = GPUTarget("cuda", capability, 32)

    def get_current_target(self) -> GPUTarget:
        return self._target

    def get_current_device(self) -> int:
        return int(self._target.arch)  # Triton keeps one cache a device: a capability is one

    def get_current_stream(self, _device: int) -> int:
        return 0

    def map_python_to_cpp_type(self, kind: str) -> str:
        return kind
