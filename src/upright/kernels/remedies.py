"""A launch that does not fit -> what would help, each compiled before it is named."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from upright.engines.facets.kernels import Shapes, Way
from upright.errors import EngineError
from upright.kernels import patching
from upright.kernels.capture import call
from upright.kernels.compile import Outcome, Task
from upright.kernels.runs import Compiler
from upright.kernels.sources import EngineSource
from upright.kernels.targets import Target


def remedy(item: Way, shapes: Shapes, source: EngineSource, target: Target, compiler: Compiler) -> str | None:
    """One sentence; None if nothing that is known helps."""
    found = [*_patches(item, shapes, source, target, compiler), *_wider_cache(item, shapes, source, target, compiler)]
    return "; or ".join(found) or None


def _patches(item: Way, shapes: Shapes, source: EngineSource, target: Target, compiler: Compiler) -> Iterator[str]:
    for row in patching.patches(source.engine):
        if all(proof.way != item.name for proof in row.proofs):
            continue
        found = patching.look(row, source)
        if found.state != "applicable" or found.file is None:
            continue
        needed = _needed(item, shapes, source, target, compiler, {found.file: patching.edited(found)})
        if needed is not None:
            words = " ".join(source.words if source.installed else ("--env", "DIR"))
            yield f"upright patch apply {row.id} --engine {source.engine} {words} (then {needed:,} bytes)"
            if row.expires:
                yield f"{source.engine} {row.expires} or later"


def _wider_cache(item: Way, shapes: Shapes, source: EngineSource, target: Target, compiler: Compiler) -> Iterator[str]:
    """Guard: a narrower cache can need more shared memory, because it is widened there before the product."""
    if shapes.kv_dtype != shapes.dtype:
        needed = _needed(item, replace(shapes, kv_dtype=shapes.dtype), source, target, compiler)
        if needed is not None:
            yield f"--kv-dtype {shapes.dtype} (then {needed:,} bytes)"


def _needed(
    item: Way,
    shapes: Shapes,
    source: EngineSource,
    target: Target,
    compiler: Compiler,
    texts: Mapping[Path, str] | None = None,
) -> int | None:
    """Bytes of the hungriest launch if all of them fit; None if one does not, or nobody knows."""
    try:
        (outcomes,) = compiler.outcomes([Task(call(item, source.root, shapes, texts))], target)
    except EngineError:
        return None
    return _most(outcomes, target.limit_bytes)


def _most(outcomes: list[Outcome], limit_bytes: int | None) -> int | None:
    needed = [outcome.shared_bytes for outcome in outcomes]
    if limit_bytes is None or any(each is None or each > limit_bytes for each in needed):
        return None
    return max(each for each in needed if each is not None)
