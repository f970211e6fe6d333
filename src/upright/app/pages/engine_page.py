"""Pages of the engines on a box, and of how to install one."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from upright.engines import engine_named
from upright.facts.records.box import Box
from upright.planning.probing.running_engines import EngineImage, RunningEngine
from upright.planning.requests.engine_installs import InstallMethod


class EnginesOnBox(NamedTuple):
    """What was found on a machine besides its box."""

    running: Sequence[RunningEngine] = ()
    images: Sequence[EngineImage] = ()


def engines_json(box: Box, at_hand: EnginesOnBox) -> dict[str, Any]:
    """The same for a program."""
    installs = [engine.model_dump(mode="json") for engine in box.engines]
    runtimes = [runtime.model_dump(mode="json") for runtime in box.containers]
    running = [engine.model_dump(mode="json") for engine in at_hand.running]
    images = [image.model_dump(mode="json") for image in at_hand.images]
    return {"box": box.name, "engines": installs, "containers": runtimes, "running": running, "images": images}


def engines_page(box: Box, width: int, at_hand: EnginesOnBox | None = None) -> str:
    return "\n".join([*_engines(box, width), *_at_hand(at_hand or EnginesOnBox())])


def install_page(ways: Sequence[InstallMethod], box: Box, width: int) -> str:
    return "\n".join(_ways(ways, box, width))


def _engines(box: Box, width: int) -> Iterator[str]:
    if box.basis == "catalog":
        yield from _wrapped(f"{box.name} is a class of machine: what is installed there is not known.", width)
        return
    yield f"{box.name}: {len(box.engines)} engine{'' if len(box.engines) == 1 else 's'} found"
    for engine in box.engines:
        module = f" -m {engine.module}" if engine.module else ""
        version = engine.version or "version not told"
        yield f"  {engine_named(engine.engine).title:<14}{version:<16}{engine.program}{module}"
    for runtime in box.containers:
        state = "usable" if runtime.usable else runtime.problem or "not usable"
        gpus = f", GPUs by {runtime.gpus}" if runtime.gpus else ""
        yield from _wrapped(f"{runtime.name:<14}{runtime.version or '':<16}{state}{gpus}", width, "  ")
    if not box.containers:
        yield "  no container runtime was found"


def _at_hand(at_hand: EnginesOnBox) -> Iterator[str]:
    for running in at_hand.running:
        where = f"process {running.name}" if running.of == "process" else f"{running.of} container {running.name}"
        yield f"  {engine_named(running.engine).title:<14}{'runs':<16}{where}"
    for image in at_hand.images:
        yield f"  {engine_named(image.engine).title:<14}{'image':<16}{image.reference} ({image.runtime})"


def _ways(ways: Sequence[InstallMethod], box: Box, width: int) -> Iterator[str]:
    gpus = f"{len(box.gpus)}x {box.gpus[0].name}" if box.gpus else "no GPU"
    yield from _wrapped(f"{box.name} ({gpus}): commands to type; nothing was downloaded", width)
    if not ways:
        yield from _wrapped("No way to get such an engine for this box is known.", width)
    for way in ways:
        yield ""
        yield from _wrapped(f"{engine_named(way.engine).title}, by {way.by}: {way.about}", width)
        yield from (f"    {command}" for command in way.commands)
        yield from _wrapped(f"tried: {way.tried}" if way.tried else "not tried by us", width, "  ")


def _wrapped(words: str, width: int, indent: str = "") -> Iterator[str]:
    yield from textwrap.wrap(words, max(24, width - 1), initial_indent=indent, subsequent_indent=indent,
                             break_on_hyphens=False)  # fmt: skip
