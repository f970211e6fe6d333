"""How to install an engine on a box, the most fitting method first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import cast

from upright.base.errors import UsageError
from upright.base.host import Host
from upright.engines import ENGINES, engine_named
from upright.facts import catalog
from upright.facts.catalog.recorded_flags import recorded_versions
from upright.facts.catalog.rows.getting import GettingRow
from upright.facts.catalog.versions import in_range
from upright.facts.records.box import Box
from upright.facts.records.recipe import Recipe
from upright.planning.placement.engine_support import runs_on

_MANAGERS = {"dnf": "dnf", "yay": "yay", "apt": "apt-cache", "brew": "brew", "nix": "nix", "conda": "conda"}
"""Their programs, the system's own first."""


@dataclass(frozen=True)
class InstallMethod:
    """One way to get an engine, with commands that can be typed."""

    engine: str
    by: str
    about: str
    commands: tuple[str, ...]
    tried: str | None
    source: str
    manager: str | None = None
    package: str | None = None
    glibc: str | None = None


def install_methods(engine: str | None, box: Box) -> tuple[InstallMethod, ...]:
    """Of one engine or of all; what this box cannot use is left out."""
    if engine is not None and engine not in ENGINES:
        raise UsageError(f"no engine named {engine}", hint=f"one of {', '.join(ENGINES)}")
    wanted = [name for name in ENGINES if runs_on(name, box)] if engine is None else [engine]
    return tuple(way for name in wanted for way in (*_rows(name, box), *_images(name, box)))


def method_here(ways: Iterable[InstallMethod], host: Host) -> InstallMethod | None:
    """The first that can be typed there as it is: its own packages, another manager, the makers' build, an image."""
    return next((way for way in sorted(ways, key=_nearness) if _can_be_typed(way, host)), None)


def _nearness(way: InstallMethod) -> int:
    order = [*_MANAGERS, "release", "image"]
    word = way.manager or way.by
    return order.index(word) if word in order else len(order)


def _can_be_typed(way: InstallMethod, host: Host) -> bool:
    if way.manager is not None:
        there = host.which(_MANAGERS[way.manager]) is not None
        return there and (way.package is None or bool(host.run(["apt-cache", "show", way.package]).out.strip()))
    if way.glibc is not None:
        told = host.run(["getconf", "GNU_LIBC_VERSION"]).out.split()
        return host.run(["uname", "-m"]).out.strip() == "x86_64" and len(told) == 2 and in_range(told[1], way.glibc)
    return way.by == "image" and host.which(way.commands[0].split()[0]) is not None


def _rows(engine: str, box: Box) -> Iterator[InstallMethod]:
    versions = recorded_versions(engine)
    newest = versions[-1].partition("+")[0] if versions else ""
    for row in cast("tuple[GettingRow, ...]", tuple(catalog.rows("getting").values())):
        if row.engine == engine and row.needs_gpu in (None, bool(box.gpus)) and _for_gpus(row, box):
            commands = tuple(command.replace("{version}", newest) for command in row.commands)
            where = (row.manager, row.package, row.glibc)
            yield InstallMethod(engine, row.by, row.about, commands, row.tried, row.sources[0], *where)


def install_hint(recipe: Recipe) -> str:
    """The engine, in a few words. They name what is for NVIDIA and CPUs: other GPUs have pages of their own."""
    capability = recipe.circumstances.compute_capability if recipe.circumstances else None
    if capability is None or in_range(capability, ">=1"):
        return engine_named(recipe.engine).where_from
    return f"upright tools engine how {recipe.engine}, with the same --box, has the build for {capability}"


def _for_gpus(row: GettingRow, box: Box) -> bool:
    """A GPU that is not known is not spoken of."""
    capabilities = [gpu.compute_capability for gpu in box.gpus if gpu.compute_capability]
    return not capabilities or any(in_range(capability, row.compute_capability) for capability in capabilities)


def _images(engine: str, box: Box) -> Iterator[InstallMethod]:
    """Upstream's images for this silicon; communities' are chosen with a plan."""
    capability = next((gpu.compute_capability for gpu in box.gpus if gpu.compute_capability), None)
    runtime = next((runtime.name for runtime in box.containers if runtime.usable), "podman")
    for image in catalog.images(engine) if capability else ():
        if image.kind == "upstream" and capability and in_range(capability, image.compute_capability):
            about = f"{image.about} {image.caution}" if getattr(image, "caution", None) else image.about
            yield InstallMethod(engine, "image", about, (f"{runtime} pull {image.pinned}",), None, image.sources[0])
