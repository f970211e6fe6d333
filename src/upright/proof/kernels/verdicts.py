"""Verdict on a launch: what it needs against what a GPU architecture has."""

from __future__ import annotations

from collections.abc import Sequence

from upright.engines.facets.kernels import KernelRoute, Shapes
from upright.facts.records.kernel import KernelVerdict
from upright.proof.kernels.compile import CompileOutcome
from upright.proof.kernels.sources import EngineSource
from upright.proof.kernels.targets import CompileTarget

TENSOR_MEMORY_COLUMNS = 512
"""What a block can have of Blackwell's tensor memory; Triton refuses more."""
_SHOWN = ("BV", "BLOCK_M", "BLOCK_N", "BLOCK_H", "BLOCK_Q", "TILE_SIZE", "BLOCK_SIZE_M", "BLOCK_SIZE_N", "BLOCK_SIZE_K")


def verdict_of(
    outcome: CompileOutcome, item: KernelRoute, shapes: Shapes | str, source: EngineSource, target: CompileTarget
) -> KernelVerdict:
    """Triton's own predicate: a launch is refused when it needs more shared memory than a block can have."""
    needed, limit = outcome.shared_bytes, target.limit_bytes
    short = columns = None
    if outcome.error is not None or needed is None:
        answer, why = "could-not-determine", outcome.error or "the compiler gave no figure"
    elif limit is None:
        answer, why = "could-not-determine", target.source
    elif needed > limit:
        short = needed - limit
        answer, why = "does-not-fit", f"needs {needed:,} bytes of shared memory, {target.name} has {limit:,}"
    elif (columns := outcome.tensor_memory_columns) is not None and columns > TENSOR_MEMORY_COLUMNS:
        answer, why = "does-not-fit", f"needs {columns} columns of tensor memory, there are {TENSOR_MEMORY_COLUMNS}"
    else:
        answer, why = "fits", f"needs {needed:,} of {limit:,} bytes of shared memory"
    return KernelVerdict(
        path=item.name,
        kernel=outcome.kernel,
        engine=source.engine,
        engine_version=source.version,
        target=target.name,
        verdict=answer,
        kv_dtype=shapes.kv_dtype if isinstance(shapes, Shapes) and not shapes.recurrent else None,
        launch="; ".join(part for part in (str(shapes), launch_words(outcome)) if part),
        needed_bytes=needed,
        limit_bytes=limit,
        short_bytes=short,
        registers=outcome.registers,
        spill_bytes=outcome.spill_bytes,
        why=why,
    )


def launch_verdicts(
    outcomes: Sequence[CompileOutcome], item: KernelRoute, shapes: Shapes, source: EngineSource, target: CompileTarget
) -> list[KernelVerdict]:
    """One verdict a launch; the configurations of an autotuned one are one launch."""
    found: dict[tuple[str, int], list[KernelVerdict]] = {}
    for place, outcome in enumerate(outcomes):
        key = ("group", outcome.group) if outcome.group is not None else ("launch", place)
        found.setdefault(key, []).append(verdict_of(outcome, item, shapes, source, target))
    return [_autotuned(verdicts) if len(verdicts) > 1 else verdicts[0] for verdicts in found.values()]


def _autotuned(verdicts: Sequence[KernelVerdict]) -> KernelVerdict:
    """Triton's autotuner passes over what does not fit, so that one configuration is enough."""
    fitting = [one for one in verdicts if one.verdict == "fits"]
    unknown = [one for one in verdicts if one.verdict == "could-not-determine"]
    if not fitting and unknown:
        return unknown[0]
    least = min(fitting or verdicts, key=lambda one: one.needed_bytes or 0)
    if not fitting:
        return least.model_copy(update={"why": f"{least.why}, with the least of {len(verdicts)} configurations"})
    rest = "" if len(fitting) == len(verdicts) else "; the autotuner passes over the others"
    most = max(one.needed_bytes or 0 for one in fitting)
    words = f"{len(fitting)} of {len(verdicts)} configurations fit, with {least.needed_bytes or 0:,} to {most:,} of"
    return least.model_copy(update={"why": f"{words} {least.limit_bytes or 0:,} bytes of shared memory{rest}"})


def launch_words(outcome: CompileOutcome) -> str:
    """`BLOCK_M 32, BLOCK_N 64, 8 warps, 1 stage`."""
    parts = [f"{name} {outcome.constants[name]}" for name in _SHOWN if name in outcome.constants]
    if outcome.num_warps is not None:
        parts.append(f"{outcome.num_warps} warps")
    if outcome.num_stages is not None:
        parts.append(f"{outcome.num_stages} stage{'s' if outcome.num_stages != 1 else ''}")
    return ", ".join(parts)
