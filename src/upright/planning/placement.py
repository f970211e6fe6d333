"""Layers + devices -> which bytes go where, for the llama.cpp family.

Layers are split evenly over the GPUs, their cache with them; then whole layers of experts stay on the GPUs while there
is room, and the rest live in main memory. Without a GPU everything does.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from upright.planning.buffers import compute_buffer, padded_context
from upright.planning.devices import HOST, Device
from upright.planning.kvcache import CacheShape
from upright.planning.weights import layer_bytes, stage_layers
from upright.records.model import Group, Model

_LAYER_GROUPS: tuple[Group, ...] = (
    "attention", "indexer", "dense_ffn", "router", "shared_experts", "norm", "other",
)  # fmt: skip
_LAST: tuple[Group, ...] = ("output", "norm", "other")


@dataclass(frozen=True)
class Overheads:
    """Bytes on each GPU beside weights, cache and scratch; upload is needed only while experts live elsewhere."""

    runtime: int
    upload: int
    process: int
    compute_factor: float


@dataclass(frozen=True)
class Load:
    """What is put on one device."""

    device: str
    weights: int = 0
    experts: int = 0
    cache: int = 0
    compute: int = 0
    runtime: int = 0
    upload: int = 0
    process: int = 0
    expert_layers: tuple[int, ...] = ()

    @property
    def bytes(self) -> int:
        return self.weights + self.experts + self.cache + self.compute + self.runtime + self.upload + self.process


@dataclass(frozen=True)
class Job:
    """A model that is to be placed."""

    model: Model
    shape: CacheShape
    gpus: tuple[Device, ...]
    gpu_budgets: tuple[int, ...]
    host_budget: int
    users: int
    ubatch_tokens: int

    @cached_property
    def dense(self) -> dict[int | None, int]:
        """Bytes of each layer, experts aside."""
        return layer_bytes(self.model, _LAYER_GROUPS)

    @cached_property
    def experts(self) -> dict[int | None, int]:
        """Bytes of each layer's routed experts."""
        return layer_bytes(self.model, ("routed_experts",))

    @cached_property
    def outside(self) -> dict[Group, int]:
        """Bytes of what lies outside the layers."""
        found: dict[Group, int] = {}
        for line in self.model.weights:
            if line.layer is None:
                found[line.group] = found.get(line.group, 0) + line.bytes
        return found

    @property
    def unified(self) -> bool:
        """One memory for all: nothing can be moved to the host that would not be taken from the GPU."""
        return any(gpu.unified for gpu in self.gpus)


def place(job: Job, context_tokens: int, overheads: Overheads) -> tuple[Load, ...]:
    """Loads of the GPUs in order, then of main memory. Main memory takes what the GPUs cannot."""
    cache = job.users * job.shape.sequence_bytes(padded_context(context_tokens))
    scratch = compute_buffer(
        job.model.architecture, ubatch_tokens=job.ubatch_tokens, context_tokens=context_tokens
    ).bytes
    scratch = int(scratch * overheads.compute_factor)
    if not job.gpus:
        experts = job.experts
        return (
            Load(
                HOST,
                weights=job.model.tensor_bytes - sum(experts.values()),
                experts=sum(experts.values()),
                cache=cache,
                compute=scratch,
                process=overheads.process,
                expert_layers=tuple(sorted(layer for layer in experts if layer is not None)),
            ),
        )
    everything = _on_gpus(job, cache, scratch, overheads, upload=0)
    if not everything[-1].expert_layers:
        return everything
    return _on_gpus(job, cache, scratch, overheads, upload=overheads.upload)


def feasible(job: Job, loads: tuple[Load, ...]) -> bool:
    return not any(over(job, load) > 0 for load in loads)


def over(job: Job, load: Load) -> int:
    """Bytes that the device does not have; negative if there is room."""
    return load.bytes - budget_of(job, load.device)


def budget_of(job: Job, device: str) -> int:
    if device == HOST:
        return job.host_budget
    return next(budget for gpu, budget in zip(job.gpus, job.gpu_budgets, strict=True) if gpu.name == device)


def capacity_tokens(job: Job, overheads: Overheads, *, most: int) -> int:
    """Tokens of context for all users together that still can be placed, by halving."""
    low, high = 0, most // job.users
    if not feasible(job, place(job, 1, overheads)):
        return 0
    while high - low > 256:
        middle = (low + high + 1) // 2
        if feasible(job, place(job, middle, overheads)):
            low = middle
        else:
            high = middle - 1
    return low // 256 * 256 * job.users


def _on_gpus(job: Job, cache: int, scratch: int, overheads: Overheads, *, upload: int) -> tuple[Load, ...]:
    dense, experts, outside = job.dense, job.experts, job.outside
    layers = job.model.architecture.layers
    outer = (*_LAST, "embedding") if job.unified else _LAST
    loads, host_layers = [], []
    parts = stage_layers(layers, len(job.gpus))
    for index, (gpu, budget, part) in enumerate(zip(job.gpus, job.gpu_budgets, parts, strict=True)):
        last = index == len(job.gpus) - 1
        base = Load(
            gpu.name,
            weights=sum(dense.get(layer, 0) for layer in part)
            + (sum(outside.get(group, 0) for group in outer) if last else 0),
            cache=cache * len(part) // layers,
            compute=scratch,
            runtime=overheads.runtime,
            upload=upload,
        )
        kept = _kept(part, experts, budget - base.bytes, from_end=last and index > 0)
        host_layers += [layer for layer in part if layer in experts and layer not in kept]
        loads.append(_with_experts(base, kept, experts))
    embedding = 0 if job.unified else outside.get("embedding", 0)
    host = Load(HOST, weights=embedding, process=overheads.process)
    return (*loads, _with_experts(host, tuple(host_layers), experts))


def _kept(part: range, experts: dict[int | None, int], room: int, *, from_end: bool) -> tuple[int, ...]:
    """Head and tail first: the first GPU keeps its first layers, the last one its last."""
    kept = []
    for layer in reversed(part) if from_end else part:
        size = experts.get(layer)
        if size is None:
            continue
        if size > room:
            break
        room -= size
        kept.append(layer)
    return tuple(sorted(kept))


def _with_experts(load: Load, layers: tuple[int, ...], experts: dict[int | None, int]) -> Load:
    return Load(
        load.device,
        weights=load.weights,
        experts=sum(experts[layer] for layer in layers),
        cache=load.cache,
        compute=load.compute,
        runtime=load.runtime,
        upload=load.upload,
        process=load.process,
        expert_layers=layers,
    )
