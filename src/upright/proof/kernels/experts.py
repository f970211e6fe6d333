"""Verdicts on the fused MoE launches of a model's routed experts.

The tiles are those of the engine's tuned file for this very device if it ships one, else those of its own default
function. Weight types whose experts do not run in Triton are named, not judged.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from upright.base.bounds.files import file_bytes
from upright.base.errors import EngineError
from upright.engines.facets.kernels import KernelRoute, Shapes
from upright.facts.records.kernel import KernelVerdict, MoeModel
from upright.proof.kernels.capture import kernels_of, launcher_call
from upright.proof.kernels.compile import CompileOutcome, CompileTask
from upright.proof.kernels.compiler import Compiler
from upright.proof.kernels.moe import HIDDEN, TILE, ConfigFile, Tile, compiled, numbers_of, tuned_files
from upright.proof.kernels.sources import EngineSource
from upright.proof.kernels.targets import CompileTarget
from upright.proof.kernels.verdicts import verdict_of

BATCHES = (1, 16, 64, 256, 1024, 4096)


@dataclass(frozen=True)
class ExpertShapes:
    """The routed experts of one layer, on one device."""

    count: int
    width: int
    """Width of one expert on this device."""
    active: int
    dtype: str | None
    """fp8_w8a8, int8_w8a8, int8_w8a16, or None for bf16: as the engine's tuned files spell it."""
    block_shape: tuple[int, ...] | None = None

    def __str__(self) -> str:
        return f"{self.count} experts of width {self.width}, {self.dtype or 'bf16'}"


def experts_of(count: int, active: int, width: int | None, scheme: str, devices: int) -> ExpertShapes | str:
    """The catalogue's words for how weights are stored -> the engine's; a sentence if Triton does not run them."""
    scheme_text = scheme.lower()
    if width is None:
        return "routed experts: their width is not known"
    if scheme_text.startswith("fp8") and "blocks of 128" in scheme_text:
        return ExpertShapes(count, max(1, width // devices), active, "fp8_w8a8", (128, 128))
    if scheme_text.startswith("bf16"):
        return ExpertShapes(count, max(1, width // devices), active, None)
    if scheme_text == "fp8":
        return "routed experts in FP8: the row does not say how they are scaled"
    return f"routed experts ({scheme}): not Triton's fused MoE"


def judge_experts(
    experts: ExpertShapes, device: str, source: EngineSource, target: CompileTarget, compiler: Compiler
) -> list[KernelVerdict]:
    """One verdict a distinct tile, with the batch sizes that lead to it."""
    files = kernels_of(source.engine).experts.default_files
    moe_way = KernelRoute("fused-moe", files, "get_default_config", lambda _: {}, "routed experts")
    try:
        tuned = _tuned(experts, device, source)
        tiles = dict(tuned.tiles) if tuned else _defaults(experts, moe_way, source, target, compiler)
    except EngineError as error:
        failed = CompileOutcome(moe_way.launcher, error=error.message)
        return [verdict_of(failed, moe_way, str(experts), source, target)]
    origin = "tuned file for this device" if tuned else "the engine's default tiles"
    verdicts = []
    distinct = sorted(set(tiles.values()))
    keys: list[Tile] = [(experts.dtype, experts.block_shape, False, tile) for tile in distinct]
    outcomes = compiled(keys, source, target, compiler)
    for key in keys:
        batches = ", ".join(str(batch) for batch, tile in sorted(tiles.items()) if tile == key[3])
        shapes = f"{experts}, batch {batches}, {origin}"
        verdicts.append(verdict_of(outcomes[key], moe_way, shapes, source, target))
    return verdicts


def moe_model(
    model: str,
    repository: str,
    experts: ExpertShapes | str,
    devices: int,
    source: EngineSource,
    target: CompileTarget,
    compiler: Compiler,
) -> MoeModel:
    """The tuned file that this release looks for, what runs with or without it, and how one is made."""
    if isinstance(experts, str):
        return MoeModel(model=model, experts=experts)
    known = kernels_of(source.engine).experts
    tune = (
        f"python {known.tuner} --model {shlex.quote(repository)} --tp-size {devices} --dtype {experts.dtype or 'auto'}"
    )
    return MoeModel(
        model=model,
        experts=str(experts),
        file_name=file_name(experts, target.device_name, known.block_joint) if target.device_name else None,
        ships=bool(target.device_name) and _tuned(experts, target.device_name, source) is not None,
        verdicts=tuple(judge_experts(experts, target.device_name, source, target, compiler)),
        tuner=f"{tune} --tune",
        place=_place(source),
    )


def file_name(experts: ExpertShapes, device: str, joint: str) -> str:
    """As both engines spell it."""
    device = "NVIDIA_H200" if "H200" in device.split() else re.sub(r"[\s/]+", "_", device)
    dtype = f",dtype={experts.dtype}" if experts.dtype else ""
    block = f",block_shape=[{joint.join(map(str, experts.block_shape))}]" if experts.block_shape else ""
    return f"E={experts.count},N={experts.width},device_name={device}{dtype}{block}.json"


def _place(source: EngineSource) -> str | None:
    """The variable that this version's own file names, else its folder."""
    known = kernels_of(source.engine).experts
    for name in known.default_files:
        if (source.root / name).is_file():
            text = file_bytes(source.root / name).decode(errors="replace")
            folder = next((one for one in known.configurations if (source.root / one).is_dir()), None)
            return f"{known.own_folder}=DIR" if known.own_folder in text else folder
    return None


def _tuned(experts: ExpertShapes, device: str, source: EngineSource) -> ConfigFile | None:
    wanted = device.replace(" ", "_")
    for file in tuned_files(source):
        same = (file.experts, file.width, file.dtype, file.block_shape)
        if file.device == wanted and same == (experts.count, experts.width, experts.dtype, experts.block_shape):
            return file
    return None


def _defaults(
    experts: ExpertShapes, item: KernelRoute, source: EngineSource, target: CompileTarget, compiler: Compiler
) -> dict[int, tuple[int, ...]]:
    """What the engine's own function answers; it runs in the child, as launchers do."""
    ways = [_asking(item, experts, batch) for batch in BATCHES]
    calls = [launcher_call(way, source.root, Shapes(0, 0, 0, 0)) for way in ways]
    batch_outcomes: Sequence[list[CompileOutcome]] = compiler.outcomes(
        [CompileTask(kernel_call, until="value") for kernel_call in calls], target
    )
    tiles = {}
    for batch, (outcome,) in zip(BATCHES, batch_outcomes, strict=True):
        if outcome.error is not None or not isinstance(outcome.value, dict) or TILE[0] not in outcome.value:
            raise EngineError(f"the default tiles are not known: {outcome.error or outcome.value}")
        tiles[batch] = numbers_of(outcome.value)
    return tiles


def _asking(item: KernelRoute, experts: ExpertShapes, batch: int) -> KernelRoute:
    arguments = {
        "M": batch,
        "E": experts.count,
        "N": experts.width,
        "K": HIDDEN,
        "topk": experts.active,
        "dtype": experts.dtype,
        "is_marlin": False,
        "block_shape": list(experts.block_shape) if experts.block_shape else None,
    }
    return KernelRoute(item.name, item.files, item.launcher, lambda _shapes: dict(arguments), item.why)
