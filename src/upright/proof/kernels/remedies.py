"""A launch that does not fit -> what would help, each compiled before it is named."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from upright.base.errors import EngineError
from upright.engines.facets.kernels import KernelRoute, Shapes
from upright.proof.kernels import patching
from upright.proof.kernels.capture import call
from upright.proof.kernels.compile import CompileOutcome, CompileTask
from upright.proof.kernels.runs import Compiler
from upright.proof.kernels.sources import EngineSource
from upright.proof.kernels.targets import CompileTarget


def remedy(
    item: KernelRoute, shapes: Shapes, source: EngineSource, target: CompileTarget, compiler: Compiler
) -> str | None:
    """One sentence; None if nothing that is known helps."""
    sentences = [
        *_patches(item, shapes, source, target, compiler),
        *_wider_cache(item, shapes, source, target, compiler),
    ]
    return "; or ".join(sentences) or None


def _patches(
    item: KernelRoute, shapes: Shapes, source: EngineSource, target: CompileTarget, compiler: Compiler
) -> Iterator[str]:
    for row in patching.patches(source.engine):
        if all(proof.way != item.name for proof in row.proofs):
            continue
        patch_status = patching.look(row, source)
        if patch_status.state != "applicable" or patch_status.file is None:
            continue
        needed = _needed(item, shapes, source, target, compiler, {patch_status.file: patching.edited(patch_status)})
        if needed is not None:
            source_options = " ".join(source.words if source.installed else ("--env", "DIR"))
            yield f"upright patch apply {row.id} --engine {source.engine} {source_options} (then {needed:,} bytes)"
            if row.expires:
                yield f"{source.engine} {row.expires} or later"


def _wider_cache(
    item: KernelRoute, shapes: Shapes, source: EngineSource, target: CompileTarget, compiler: Compiler
) -> Iterator[str]:
    """Guard: a narrower cache can need more shared memory, because it is widened there before the product."""
    if shapes.kv_dtype != shapes.dtype and not shapes.recurrent:
        needed = _needed(item, replace(shapes, kv_dtype=shapes.dtype), source, target, compiler)
        if needed is not None:
            yield f"--kv-dtype {shapes.dtype} (then {needed:,} bytes)"


def _needed(
    item: KernelRoute,
    shapes: Shapes,
    source: EngineSource,
    target: CompileTarget,
    compiler: Compiler,
    texts: Mapping[Path, str] | None = None,
) -> int | None:
    """Bytes of the hungriest launch if all of them fit; None if one does not, or nobody knows."""
    try:
        (outcomes,) = compiler.outcomes([CompileTask(call(item, source.root, shapes, texts))], target)
    except EngineError:
        return None
    return _most(outcomes, target.limit_bytes)


def _most(outcomes: list[CompileOutcome], limit_bytes: int | None) -> int | None:
    needed = [outcome.shared_bytes for outcome in outcomes]
    if limit_bytes is None or any(size_bytes is None or size_bytes > limit_bytes for size_bytes in needed):
        return None
    return max(size_bytes for size_bytes in needed if size_bytes is not None)
