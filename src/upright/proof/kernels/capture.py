"""The call of an engine's own kernel launcher, for given shapes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from upright.base.errors import EngineError, UsageError
from upright.engines import ENGINES, engine_named
from upright.engines.facets.kernels import Arguments, KernelRoute, Shapes, TritonKernels
from upright.proof.kernels.extract import Extracted, extract


@dataclass(frozen=True)
class LauncherCall:
    """A launcher, extracted, with its arguments: all that is needed to capture its launches."""

    way: KernelRoute
    extracted: Extracted
    arguments: Arguments
    shapes: Shapes


def launcher_call(
    way: KernelRoute, root: Path, shapes: Shapes, texts: Mapping[Path, str] | None = None
) -> LauncherCall:
    """The call that this engine version's launcher takes."""
    return call_with_known(way, extract(root, find(way, root), way.launcher, texts), shapes)


def call_with_known(way: KernelRoute, extracted: Extracted, shapes: Shapes) -> LauncherCall:
    """Parameters that this version does not have are left out; one that nobody knows is an error by name."""
    known = way.arguments(shapes)
    lacking = [
        parameter.name for parameter in extracted.parameters if parameter.required and parameter.name not in known
    ]
    if lacking:
        raise EngineError(
            f"{way.launcher} asks for {', '.join(lacking)}, which is not known here",
            hint="this engine version is newer than the kernel checks of this upright",
        )
    taken = {parameter.name for parameter in extracted.parameters}
    return LauncherCall(way, extracted, {name: argument for name, argument in known.items() if name in taken}, shapes)


def find(way: KernelRoute, root: Path) -> Path:
    for file in way.files:
        if (root / file).is_file():
            return root / file
    raise EngineError(f"{root} has none of: {', '.join(way.files)}")


def kernel_route(engine: str, name: str) -> KernelRoute:
    ways = kernels_of(engine).ways
    for known_way in ways:
        if known_way.name == name:
            return known_way
    raise EngineError(
        f"no way {name} through {engine}", hint=f"known: {', '.join(known_way.name for known_way in ways)}"
    )


def kernels_of(engine: str) -> TritonKernels:
    known = engine_named(engine).kernels
    if known is None:
        able = ", ".join(name for name, other in ENGINES.items() if other.kernels)
        raise UsageError(f"{engine} has no Triton kernels to check", hint=f"engines: {able}")
    return known
