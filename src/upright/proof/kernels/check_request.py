"""A kernel check as people name it: MODEL, and BOX or TARGET."""

from __future__ import annotations

from dataclasses import dataclass

from upright.base.errors import UsageError
from upright.facts import catalog
from upright.facts.catalog.rows.model import Artifact, ModelRow
from upright.facts.records.kernel import KernelCheck, MoeModel
from upright.facts.records.model import Attention
from upright.models.reading import read
from upright.planning.probing import box_of
from upright.proof.kernels.check import check, kv_type
from upright.proof.kernels.compiler import Compiler
from upright.proof.kernels.experts import ExpertShapes, experts_of, moe_model
from upright.proof.kernels.sources import EngineSource
from upright.proof.kernels.targets import CompileTarget, of_capability, target


@dataclass(frozen=True)
class TargetGpus:
    """What kernels are compiled for."""

    target: CompileTarget
    devices: int
    """GPUs that share each layer."""
    box: str | None = None
    """The box that has them; None where only a silicon was named."""


def target_gpus(box: str | None, target_name: str | None, devices: int | None) -> TargetGpus:
    """Of a box, or named by itself; all GPUs of a box share each layer unless fewer are asked for."""
    if box is not None and target_name is not None:
        raise UsageError("--box and --target name the silicon twice")
    if target_name is not None:
        return TargetGpus(target(target_name), devices or 1)
    machine = box_of(box)
    capabilities = {gpu.compute_capability for gpu in machine.gpus if gpu.compute_capability}
    if not capabilities:
        raise UsageError(f"{machine.name} has no GPU whose capability is known", hint="--target sm_120")
    if len(capabilities) > 1:
        raise UsageError(f"{machine.name} has {', '.join(sorted(capabilities))}", hint="--target names one of them")
    names = {gpu.name for gpu in machine.gpus}
    silicon = of_capability(capabilities.pop(), names.pop() if len(names) == 1 else None)
    return TargetGpus(silicon, devices or len(machine.gpus), machine.name)


def check_model(
    model: str, silicon: TargetGpus, source: EngineSource, compiler: Compiler, *, kv_dtype: str
) -> KernelCheck:
    """The verdicts for what this model would use there."""
    name, attention, experts = _layers(model, silicon.devices)
    return check(
        attention, source, silicon.target, compiler,
        devices=silicon.devices, kv_dtype=kv_type(kv_dtype), experts=experts, model=name, box=silicon.box,
    )  # fmt: skip


def moe_of_model(model: str, silicon: TargetGpus, source: EngineSource, compiler: Compiler) -> MoeModel:
    """The tuned file of routed experts that this engine looks for there."""
    name, _, experts = _layers(model, silicon.devices)
    if experts is None:
        raise UsageError(f"{name} has no routed experts whose shapes are known")
    row = catalog.find_model(model)
    stored = _stored(row, model) if row is not None else None
    repository = stored.repository if stored is not None else model
    return moe_model(name, repository, experts, silicon.devices, source, silicon.target, compiler)


def _layers(model: str, devices: int) -> tuple[str, tuple[Attention, ...], ExpertShapes | str | None]:
    row = catalog.find_model(model)
    if row is not None and row.shape is not None:
        shape, stored = row.shape, _stored(row, model)
        if shape.experts is None or stored is None:
            return row.id, shape.attention, None
        count, active, width = shape.experts.count, shape.experts.active, shape.expert_ffn_size
        return row.id, shape.attention, experts_of(count, active, width, stored.scheme, devices)
    model_record = read(model)
    unknown = "routed experts: their width is not in the headers" if model_record.architecture.experts else None
    return model_record.name, model_record.architecture.attention, unknown


def _stored(row: ModelRow, model: str) -> Artifact | None:
    files = [one for one in row.artifacts if one.format == "safetensors"]
    return next((one for one in files if one.repository.lower() == model.lower()), files[0] if files else None)
