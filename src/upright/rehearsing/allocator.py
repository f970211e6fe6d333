"""llama.cpp's own allocator on a file of holes -> what it would put where; nothing is allocated and nothing is read."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from upright.host import Host
from upright.records.recipe import Recipe
from upright.units import MIB

_TOOL = "llama-fit-params"
# Guard: the table names only what its backends call devices; CPU_REPACK stands in no column (llama.cpp b11669).
_ROW = re.compile(r"^(?P<device>[A-Za-z]+\d*) +(?P<model>\d+) +(?P<context>\d+) +(?P<compute>\d+)\s*$", re.MULTILINE)
_TAKES = (
    "--ctx-size", "--parallel", "--cache-type-k", "--cache-type-v", "--n-gpu-layers", "--flash-attn",
    "--batch-size", "--ubatch-size", "--override-tensor",
)  # fmt: skip
_TERMS = {"model": "weights", "context": "kv_cache", "compute": "compute"}


@dataclass(frozen=True)
class Allotment:
    """What the allocator said."""

    bytes: dict[tuple[str, str], int]
    """By device and term; whole mebibytes, as it prints them."""
    text: str


def allocator(recipe: Recipe, host: Host) -> str | None:
    """The tool beside the engine's program, or on the path; None if this build has none."""
    beside = Path(recipe.program).with_name(_TOOL)
    return str(beside) if beside.exists() else host.which(_TOOL)


def allot(tool: str, recipe: Recipe, model: str, host: Host, *, timeout_seconds: float = 300) -> Allotment:
    words = [word for each in recipe.arguments if each.name in _TAKES for word in (each.name, each.value or "")]
    # Without repacking every weight is counted in its own column.
    done = host.run([tool, "--model", model, *words, "--no-repack", "-fitp", "on"], timeout_seconds=timeout_seconds)
    text = f"{done.out}\n{done.err}"
    found = {
        (_device(row["device"]), term): int(row[column]) * MIB
        for row in _ROW.finditer(done.out)
        for column, term in _TERMS.items()
    }
    return Allotment(found if done.ok else {}, text)


def _device(name: str) -> str:
    number = re.search(r"\d+$", name)
    return f"gpu{number[0]}" if number else "host"
