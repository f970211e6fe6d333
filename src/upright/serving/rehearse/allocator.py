"""An engine's own allocator on a file of holes -> what it would put where; nothing is allocated and nothing is read."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from upright.base.host import Host
from upright.base.units import MIB
from upright.engines.facets.proof import Allocator
from upright.facts.records.recipe import Recipe


@dataclass(frozen=True)
class Allotment:
    """What the allocator said."""

    bytes: dict[tuple[str, str], int]
    """By device and term; whole mebibytes, as it prints them."""
    text: str


def allocator(known: Allocator, recipe: Recipe, host: Host) -> str | None:
    """The tool beside the engine's program, or on the path; None if this build has none."""
    beside = Path(recipe.program).with_name(known.tool)
    return str(beside) if beside.exists() else host.which(known.tool)


def allot(
    known: Allocator, tool: str, recipe: Recipe, model: str, host: Host, *, timeout_seconds: float = 300
) -> Allotment:
    options = [
        word
        for argument in recipe.arguments
        if argument.name in known.takes
        for word in (argument.name, argument.value or "")
    ]
    done = host.run([tool, "--model", model, *options, *known.words], timeout_seconds=timeout_seconds)
    text = f"{done.out}\n{done.err}"
    device_bytes = {
        (_device(row["device"]), term): int(row[column]) * MIB
        for row in re.finditer(known.row, done.out, re.MULTILINE)
        for column, term in known.terms.items()
    }
    return Allotment(device_bytes if done.ok else {}, text)


def _device(name: str) -> str:
    number = re.search(r"\d+$", name)
    return f"gpu{number[0]}" if number else "host"
