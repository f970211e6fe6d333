"""Layers + an engine's files -> the kernels that they launch and nothing here compiles, each by its name.

A name is said only if this version's own file has it: rows are written from one release, and files move.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from upright.engines.facets.kernels import SparseLayers, UnjudgedKernels
from upright.facts.records.model import Recurrence
from upright.proof.kernels.capture import kernels_of
from upright.proof.kernels.sources import EngineSource
from upright.proof.kernels.targets import CompileTarget


def unjudged(
    layers: SparseLayers | Recurrence | None, called: str, source: EngineSource, target: CompileTarget
) -> Iterator[str]:
    """Sentences; one that says so where this version has none of the names."""
    rows = [row for row in kernels_of(source.engine).unjudged if row.layers == layers and _taken(row, target)]
    found = False
    for row in rows:
        if names := named_in(row, source):
            found = True
            yield f"{called}, {row.use}: {', '.join(names)} ({row.why})"
    if not found:
        yield f"{called}: which kernels {source.engine} {source.version or ''} launches is not known".replace("  ", " ")


def _taken(row: UnjudgedKernels, target: CompileTarget) -> bool:
    return row.majors is None or target.capability // 10 in row.majors


def named_in(row: UnjudgedKernels, source: EngineSource) -> list[str]:
    """Those of its kernels that this version's file names."""
    for file in row.files:
        if (path := source.root / file).is_file():
            text = path.read_text(encoding="utf-8", errors="replace")
            return [name for name in row.kernels if re.search(rf"\b{re.escape(name)}\b", text)]
    return []
