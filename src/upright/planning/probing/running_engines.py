"""Host -> engines that run on it, and images of engines that its container runtimes have."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from upright.base.host import Host
from upright.base.untrusted_text import on_one_line
from upright.engines import ENGINES
from upright.facts.catalog import images
from upright.facts.records.base import Part
from upright.facts.records.box import Box

_MOST = 50
_LONGEST = 120


class RunningEngine(Part):
    """A process or a container. What it was told is not shown: a key may be among it."""

    engine: str
    """Which engine."""
    of: str
    """`process`, or the runtime of the container."""
    name: str
    """The process's number, or the container's name."""


class EngineImage(Part):
    """An image that is on the machine already."""

    engine: str
    """Which engine it holds."""
    runtime: str
    """docker or podman."""
    reference: str
    """Its name and tag."""


def running_and_images(host: Host, box: Box) -> tuple[tuple[RunningEngine, ...], tuple[EngineImage, ...]]:
    """Asked in one round; a runtime that does not answer has none."""
    runtimes = [runtime.name for runtime in box.containers if runtime.usable]
    listed = [(name, "images", "--format", "{{.Repository}}:{{.Tag}}") for name in runtimes]
    started = [(name, "ps", "--format", "{{.Names}}\t{{.Image}}") for name in runtimes]
    answers = [
        answer.out if answer.ok else "" for answer in host.gather([("ps", "-eo", "pid=,args="), *listed, *started])
    ]
    processes, pulled, containers = answers[0], answers[1 : 1 + len(runtimes)], answers[1 + len(runtimes) :]
    running = [*_processes(processes), *_containers(zip(runtimes, containers, strict=True))]
    kept = [
        EngineImage(engine=engine, runtime=runtime, reference=on_one_line(line, _LONGEST))
        for runtime, text in zip(runtimes, pulled, strict=True)
        for line in text.splitlines()
        if (engine := _engine_of_image(line)) is not None
    ]
    return tuple(running[:_MOST]), tuple(kept[:_MOST])


def _processes(text: str) -> Iterator[RunningEngine]:
    for line in text.splitlines():
        number, _, arguments = line.strip().partition(" ")
        engine = _engine_of_words(arguments.split()[:4])
        if engine is not None and number.isdigit():
            yield RunningEngine(engine=engine, of="process", name=number)


def _containers(listed: Iterable[tuple[str, str]]) -> Iterator[RunningEngine]:
    for runtime, text in listed:
        for line in text.splitlines():
            name, _, image = line.partition("\t")
            engine = _engine_of_image(image)
            if engine is not None:
                yield RunningEngine(engine=engine, of=runtime, name=on_one_line(name, _LONGEST))


def _engine_of_words(words: Sequence[str]) -> str | None:
    """By the program, or by the program and module that an interpreter runs; never by what comes after."""
    names = [os.path.basename(word) for word in words[:2]]  # noqa: PTH119  no path of this machine
    programs = names if names and names[0].startswith("python") else names[:1]
    modules = [module for flag, module in pairwise(words) if flag == "-m"]
    for name, engine in ENGINES.items():
        finding = engine.finding
        if finding is None:
            continue
        module = getattr(finding, "module", None)
        if engine.program in programs or finding.name in programs or (module and module in modules):
            return name
    return None


def _engine_of_image(reference: str) -> str | None:
    """By the repository, whatever the tag."""
    repository = _repository(reference)
    known = (row for name in ENGINES for row in images(name))
    return next((row.engine for row in known if _repository(row.reference) == repository), None)


def _repository(reference: str) -> str:
    bare = reference.strip().partition("@")[0]
    head, _, tag = bare.rpartition(":")
    bare = head if head and "/" not in tag else bare
    return bare.removeprefix("docker.io/")
