"""Checks whether every Triton kernel that a model uses fits a GPU architecture."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from upright.base.bounds.files import file_text
from upright.base.errors import EngineError
from upright.engines.facets.kernels import (
    FP8,
    KernelRoute,
    Shapes,
    SparseLayers,
    UnjudgedKernels,
    grouped_shapes,
    recurrent_shapes,
)
from upright.facts.catalog import compat
from upright.facts.records.kernel import KernelCheck, KernelVerdict
from upright.facts.records.model import (
    Attention,
    CompressedAttention,
    GqaAttention,
    LinearAttention,
    MlaAttention,
    Recurrence,
)
from upright.proof.kernels import patching
from upright.proof.kernels.capture import LauncherCall, kernel_route, kernels_of, launcher_call
from upright.proof.kernels.compile import CompileOutcome, CompileTask
from upright.proof.kernels.compiler import Compiler
from upright.proof.kernels.experts import ExpertShapes, judge_experts
from upright.proof.kernels.sources import EngineSource
from upright.proof.kernels.targets import CompileTarget
from upright.proof.kernels.verdicts import launch_verdicts, verdict_of


def check(
    attention: Sequence[Attention],
    source: EngineSource,
    target: CompileTarget,
    compiler: Compiler,
    *,
    devices: int = 1,
    kv_dtype: str = "bfloat16",
    experts: ExpertShapes | str | None = None,
    device: str | None = None,
    model: str | None = None,
    box: str | None = None,
    made_from: tuple[str, ...] = (),
) -> KernelCheck:
    """Every launch that these layers lead to, spread over `devices` by tensor parallelism.

    `experts` is a word for what is not Triton's if the routed experts are stored in a type that runs elsewhere.
    """
    ways = list(dict.fromkeys(_ways(attention, source.engine, devices, kv_dtype)))
    verdicts = kernel_verdicts(ways, source, target, compiler)
    not_judged = list(dict.fromkeys(_not_judged(attention, source, target)))
    if isinstance(experts, ExpertShapes):
        verdicts += judge_experts(experts, device or target.device_name, source, target, compiler)
    elif experts is not None:
        not_judged.append(experts)
    return KernelCheck(
        made_from=made_from,
        model=model,
        box=box,
        engine=source.engine,
        engine_version=source.version,
        engine_source=source.where,
        triton=compiler.interpreter.described,
        target=target.name,
        limit_bytes=target.limit_bytes,
        verdicts=tuple(verdicts),
        not_judged=tuple(not_judged),
    )


def kernel_verdicts(
    ways: Sequence[tuple[KernelRoute, Shapes]], source: EngineSource, target: CompileTarget, compiler: Compiler
) -> list[KernelVerdict]:
    """A verdict for every launch; one that does not fit comes with what would help."""
    calls: list[LauncherCall] = []
    verdicts: list[KernelVerdict] = []
    for kernel_way, shapes in ways:
        try:
            calls.append(launcher_call(kernel_way, source.root, shapes))
        except EngineError as error:
            failed = CompileOutcome(kernel=kernel_way.launcher, error=error.message)
            verdicts.append(verdict_of(failed, kernel_way, shapes, source, target))
    outcomes = compiler.outcomes([CompileTask(kernel_call) for kernel_call in calls], target)
    for kernel_call, call_outcomes in zip(calls, outcomes, strict=True):
        here = launch_verdicts(call_outcomes, kernel_call.way, kernel_call.shapes, source, target)
        if any(one.verdict == "does-not-fit" for one in here):
            helps = {"remedy": remedy(kernel_call.way, kernel_call.shapes, source, target, compiler)}
            here = [one.model_copy(update=helps) if one.verdict == "does-not-fit" else one for one in here]
        verdicts += here
    return verdicts


def _ways(
    attention: Sequence[Attention], engine: str, devices: int, kv_dtype: str
) -> Iterator[tuple[KernelRoute, Shapes]]:
    known = kernels_of(engine)
    for layer in attention:
        if isinstance(layer, MlaAttention):
            if not layer.sparse:  # the dense kernels are not launched where an index chooses
                yield from (
                    (kernel_route(engine, name), shapes) for name, shapes in known.latent(layer, devices, kv_dtype)
                )
        elif isinstance(layer, GqaAttention):
            shapes = grouped_shapes(layer, devices, kv_dtype)
            yield from ((kernel_route(engine, name), shapes) for name in known.grouped)
        elif isinstance(layer, LinearAttention) and (state := recurrent_shapes(layer, devices)) is not None:
            assert layer.rule is not None
            yield from ((kernel_route(engine, name), state) for name in known.recurrent.get(layer.rule, ()))


def _not_judged(attention: Sequence[Attention], source: EngineSource, target: CompileTarget) -> Iterator[str]:
    engine = source.engine
    for layer in attention:
        if isinstance(layer, LinearAttention):
            yield from unjudged_kernels(layer.rule, f"recurrent layers ({layer.rule or 'unnamed'})", source, target)
        elif isinstance(layer, MlaAttention) and layer.sparse:
            yield from unjudged_kernels("sparse MLA", "sparse MLA", source, target)
        elif isinstance(layer, CompressedAttention):
            yield from unjudged_kernels("compressed attention", "compressed attention", source, target)
        elif isinstance(layer, MlaAttention):
            yield from kernels_of(engine).latent_not_judged
            yield from _other_backend(source, target)
        elif isinstance(layer, GqaAttention):
            if layer.indexer_top_k is not None:
                yield from unjudged_kernels("block-sparse attention", "block-sparse attention", source, target)
            yield f"attention: {engine} takes FlashAttention or FlashInfer where it can; only Triton's was judged"


def _other_backend(source: EngineSource, target: CompileTarget) -> Iterator[str]:
    """What decodes there, by the catalogue: a Triton kernel that fits says nothing of another backend."""
    capability = f"{target.capability // 10}.{target.capability % 10}"
    try:
        rows = compat(source.engine, source.version, capability, patched=False)
    except ValueError:  # a commit is no version to compare
        rows = compat(source.engine, None, capability, patched=False)
    row = next((row for row in rows if row.feature == "dense MLA" and row.status == "works" and row.backend), None)
    if row is None:
        unknown = f"which backend {source.engine} takes on SM {capability} is not known"
        yield f"MLA decode: {unknown}; only Triton's was judged"
    elif "triton" not in (row.backend or "").lower():
        yield f"MLA decode: {source.engine} takes {row.backend} on SM {capability}, which is not Triton's"


def kv_type(name: str) -> str:
    """The stored type behind the spellings of the engines."""
    known = {"auto": "bfloat16", "bf16": "bfloat16", "bfloat16": "bfloat16", "fp16": "float16", "float16": "float16"}
    known |= {"fp8": FP8, "fp8_e4m3": FP8, FP8: FP8, "fp8_e5m2": "float8_e5m2"}
    if name not in known:
        raise EngineError(f"{name} is no KV type that kernels are checked for", hint=f"known: {', '.join(known)}")
    return known[name]


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
        patch_status = patching.match_patch(row, source)
        if patch_status.state != "applicable" or patch_status.file is None:
            continue
        needed = _needed(
            item, shapes, source, target, compiler, {patch_status.file: patching.patched_text(patch_status)}
        )
        if needed is not None:
            source_options = " ".join(source.words if source.installed else ("--env", "DIR"))
            patch = f"upright tools kernels patch apply {row.id} --engine {source.engine} {source_options}"
            yield f"{patch} (then {needed:,} bytes)"
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
        (outcomes,) = compiler.outcomes([CompileTask(launcher_call(item, source.root, shapes, texts))], target)
    except EngineError:
        return None
    return _most(outcomes, target.limit_bytes)


def _most(outcomes: list[CompileOutcome], limit_bytes: int | None) -> int | None:
    needed = [outcome.shared_bytes for outcome in outcomes]
    if limit_bytes is None or any(size_bytes is None or size_bytes > limit_bytes for size_bytes in needed):
        return None
    return max(size_bytes for size_bytes in needed if size_bytes is not None)


def unjudged_kernels(
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
            text = file_text(path, errors="replace")
            return [name for name in row.kernels if re.search(rf"\b{re.escape(name)}\b", text)]
    return []
