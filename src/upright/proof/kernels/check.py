"""Model + engine + target -> KernelCheck: does every Triton kernel on the way fit this silicon?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from upright.base.errors import EngineError
from upright.engines.facets.kernels import FP8, KernelRoute, Shapes, grouped_shapes, recurrent_shapes
from upright.facts.catalog import compat
from upright.facts.records.kernel import KernelCheck, KernelVerdict
from upright.facts.records.model import Attention, CompressedAttention, GqaAttention, LinearAttention, MlaAttention
from upright.proof.kernels.capture import LauncherCall, call, kernels_of, way
from upright.proof.kernels.compile import CompileOutcome, CompileTask
from upright.proof.kernels.experts import ExpertShapes, judge_experts
from upright.proof.kernels.judging import judged, judged_launches
from upright.proof.kernels.remedies import remedy
from upright.proof.kernels.runs import Compiler
from upright.proof.kernels.sources import EngineSource
from upright.proof.kernels.targets import CompileTarget
from upright.proof.kernels.unjudged import unjudged


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
    verdicts = judge(ways, source, target, compiler)
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


def judge(
    ways: Sequence[tuple[KernelRoute, Shapes]], source: EngineSource, target: CompileTarget, compiler: Compiler
) -> list[KernelVerdict]:
    """A verdict for every launch; one that does not fit comes with what would help."""
    calls: list[LauncherCall] = []
    verdicts: list[KernelVerdict] = []
    for kernel_way, shapes in ways:
        try:
            calls.append(call(kernel_way, source.root, shapes))
        except EngineError as error:
            failed = CompileOutcome(kernel=kernel_way.launcher, error=error.message)
            verdicts.append(judged(failed, kernel_way, shapes, source, target))
    outcomes = compiler.outcomes([CompileTask(kernel_call) for kernel_call in calls], target)
    for kernel_call, call_outcomes in zip(calls, outcomes, strict=True):
        here = judged_launches(call_outcomes, kernel_call.way, kernel_call.shapes, source, target)
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
                yield from ((way(engine, name), shapes) for name, shapes in known.latent(layer, devices, kv_dtype))
        elif isinstance(layer, GqaAttention):
            shapes = grouped_shapes(layer, devices, kv_dtype)
            yield from ((way(engine, name), shapes) for name in known.grouped)
        elif isinstance(layer, LinearAttention) and (state := recurrent_shapes(layer, devices)) is not None:
            assert layer.rule is not None
            yield from ((way(engine, name), state) for name in known.recurrent.get(layer.rule, ()))


def _not_judged(attention: Sequence[Attention], source: EngineSource, target: CompileTarget) -> Iterator[str]:
    engine = source.engine
    for layer in attention:
        if isinstance(layer, LinearAttention):
            yield from unjudged(layer.rule, f"recurrent layers ({layer.rule or 'unnamed'})", source, target)
        elif isinstance(layer, MlaAttention) and layer.sparse:
            yield from unjudged("sparse MLA", "sparse MLA", source, target)
        elif isinstance(layer, CompressedAttention):
            yield from unjudged("compressed attention", "compressed attention", source, target)
        elif isinstance(layer, MlaAttention):
            yield from kernels_of(engine).latent_not_judged
            yield from _other_backend(source, target)
        elif isinstance(layer, GqaAttention):
            if layer.indexer_top_k is not None:
                yield from unjudged("block-sparse attention", "block-sparse attention", source, target)
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
