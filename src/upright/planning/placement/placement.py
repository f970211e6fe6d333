"""Which bytes of a model go on which device, for the llama.cpp family.

Layers are split evenly over the GPUs, their cache with them; then whole layers of experts stay on the GPUs while there
is room, and the rest live in system RAM. Without a GPU everything does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import product
from math import prod
from typing import NamedTuple

from upright.engines.facets.spread import PromptScratch
from upright.facts.records.model import Group, Model
from upright.planning.memory.buffers import compute_buffer, padded_context
from upright.planning.memory.kvcache import CacheShape
from upright.planning.memory.weights import layer_bytes, stage_layers, tied
from upright.planning.placement.devices import HOST, Device

_LAYER_GROUPS: tuple[Group, ...] = (
    "attention", "indexer", "dense_ffn", "router", "shared_experts", "norm", "other",
)  # fmt: skip
_LAST: tuple[Group, ...] = ("output", "norm", "other")
_LOOKED_UP: tuple[Group, ...] = ("embedding", "tables")
EXACT_SIZES = 3
QUICK_STATES = 500
USUAL_SCRATCH = PromptScratch()


class Overheads(NamedTuple):
    """Bytes on each GPU beside weights, cache and scratch; upload is needed only while experts live elsewhere."""

    runtime: int
    upload: int
    process: int
    compute_factor: float
    size_factor: float = 1.0
    """Weights as large as this many times what was derived; 1 where their size was read."""


class DeviceLoad(NamedTuple):
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
class PlacementJob:
    """A model that is to be placed."""

    model: Model
    shape: CacheShape
    gpus: tuple[Device, ...]
    gpu_budgets: tuple[int, ...]
    host_budget: int
    users: int
    ubatch_tokens: int
    scratch: PromptScratch = USUAL_SCRATCH
    layer_counts: tuple[int, ...] = ()
    """Layers of each GPU, where they are of several kinds; even without."""
    asked_layers: tuple[int, ...] | None = None
    """Layers of experts that are wanted on the first GPUs, none on the others; None: as many as there is room for."""

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

    @cached_property
    def unified(self) -> bool:
        """One memory for all: nothing can be moved to the host that would not be taken from the GPU."""
        return any(gpu.unified for gpu in self.gpus)

    @cached_property
    def parts(self) -> tuple[range, ...]:
        """Layers of each GPU."""
        return stage_layers(self.model.architecture.layers, len(self.gpus), self.layer_counts)

    @cached_property
    def stays(self) -> tuple[int, ...]:
        """Bytes on each GPU that are moved nowhere: its layers without their experts, and on the last what follows.

        An embedding that is the output matrix too lies in system RAM for the one use, and beside the last layer for
        the other (llama.cpp llama-model.cpp: TENSOR_DUPLICATED). Lookup tables (n-grams) are inputs as the embedding
        is, and lie with it.
        """
        layers = [sum(self.dense.get(layer, 0) for layer in part) for part in self.parts]
        return (*layers[:-1], layers[-1] + outer_bytes(self))


def outer_bytes(job: PlacementJob) -> int:
    """What follows the last layer."""
    outer = (*_LAST, *_LOOKED_UP) if job.unified else (*_LAST, "embedding") if tied(job.model) else _LAST
    return sum(job.outside.get(group, 0) for group in outer)


def place(job: PlacementJob, context_tokens: int, overheads: Overheads) -> tuple[DeviceLoad, ...]:
    """Loads of the GPUs in order, then of system RAM. System RAM takes what the GPUs cannot."""
    cache, scratch = growing_bytes(job, context_tokens, overheads)
    if not job.gpus:
        experts, factor = job.experts, overheads.size_factor
        return (
            DeviceLoad(
                HOST,
                weights=int(factor * (job.model.tensor_bytes - sum(experts.values()))),
                experts=int(factor * sum(experts.values())),
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


def feasible(job: PlacementJob, loads: tuple[DeviceLoad, ...]) -> bool:
    return not any(shortfall_bytes(job, load) > 0 for load in loads)


def shortfall_bytes(job: PlacementJob, load: DeviceLoad) -> int:
    """Bytes that the device does not have; negative if there is room."""
    return load.bytes - budget_of(job, load.device)


def budget_of(job: PlacementJob, device: str) -> int:
    if device == HOST:
        return job.host_budget
    return next(budget for gpu, budget in zip(job.gpus, job.gpu_budgets, strict=True) if gpu.name == device)


def capacity_tokens(job: PlacementJob, overheads: Overheads, *, most: int) -> int:
    """Tokens of context for all users together that still can be placed, by halving."""
    low, high = 0, most // job.users
    if not _holds(job, 1, overheads):
        return 0
    while high - low > 256:
        middle = (low + high + 1) // 2
        if _holds(job, middle, overheads):
            low = middle
        else:
            high = middle - 1
    return low // 256 * 256 * job.users


def _holds(job: PlacementJob, context_tokens: int, overheads: Overheads) -> bool:
    """Whether it can be placed; what no GPU has room for beside its layers is not tried with experts."""
    cache, scratch = growing_bytes(job, context_tokens, overheads)
    beside, layers = scratch + overheads.runtime, job.model.architecture.layers
    for budget, part, stays in zip(job.gpu_budgets, job.parts, job.stays, strict=True) if job.gpus else ():
        if int(overheads.size_factor * stays) + cache * len(part) // layers + beside > budget:
            return False
    return feasible(job, place(job, context_tokens, overheads))


def growing_bytes(job: PlacementJob, context_tokens: int, overheads: Overheads) -> tuple[int, int]:
    """Bytes of the cache in all, and of the scratch of each device."""
    cache = job.users * job.shape.sequence_bytes(padded_context(context_tokens))
    scratch = compute_buffer(
        job.model.architecture,
        ubatch_tokens=job.ubatch_tokens,
        context_tokens=context_tokens,
        scratch=job.scratch,
    ).bytes
    return cache, int(scratch * overheads.compute_factor)


def _on_gpus(
    job: PlacementJob, cache: int, scratch: int, overheads: Overheads, *, upload: int
) -> tuple[DeviceLoad, ...]:
    factor, layers = overheads.size_factor, job.model.architecture.layers
    bases = [
        DeviceLoad(
            gpu.name,
            weights=int(factor * stays),
            cache=cache * len(part) // layers,
            compute=scratch,
            runtime=overheads.runtime,
            upload=upload,
        )
        for gpu, part, stays in zip(job.gpus, job.parts, job.stays, strict=True)
    ]
    experts = {layer: int(factor * size) for layer, size in job.experts.items() if layer is not None}
    rooms = [budget - base.bytes for budget, base in zip(job.gpu_budgets, bases, strict=True)]
    kept = choose_expert_layers(job.parts, experts, rooms, job.asked_layers)
    loads = [_with_experts(base, layers_here, experts) for base, layers_here in zip(bases, kept, strict=True)]
    left = tuple(sorted(experts.keys() - {layer for layers_here in kept for layer in layers_here}))
    inputs = 0 if job.unified else int(factor * sum(job.outside.get(group, 0) for group in _LOOKED_UP))
    return (*loads, _with_experts(DeviceLoad(HOST, weights=inputs, process=overheads.process), left, experts))


def choose_expert_layers(
    parts: Sequence[range], experts: Mapping[int, int], rooms: Sequence[int], asked: Sequence[int] | None = None
) -> tuple[tuple[int, ...], ...]:
    """Layers of experts on each GPU, as many bytes as there is room for: every byte there is one that the processor
    need not read. First each GPU's own layers, head and tail of the model first; then what still fits anywhere. As
    many layers as were asked for, where somebody did, whether there is room or not."""
    owned: list[list[int]] = []
    for index, part in enumerate(parts):
        own = part if index == 0 or index < len(parts) - 1 else reversed(part)
        owned.append([layer for layer in own if layer in experts])
    if asked is not None:
        return _as_asked(owned, [*asked, *[0] * (len(parts) - len(asked))])
    kept = [_fill(room, own, experts) for own, room in zip(owned, rooms, strict=True)]
    taken = {layer for layers in kept for layer in layers}
    left = [layer for layer in experts if layer not in taken]
    for index, room in enumerate(rooms):
        more = _fill(room - sum(experts[layer] for layer in kept[index]), left, experts)
        kept[index] = (*kept[index], *more)
        left = [layer for layer in left if layer not in more]
    if left and len(set(experts.values())) > 1:
        kept = _mixed(kept, experts, rooms)
    return tuple(tuple(sorted(layers)) for layers in kept)


def _as_asked(owned: Sequence[Sequence[int]], asked: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    """So many of each GPU's own layers; more than it has are those that the others leave."""
    left = [layer for own, count in zip(owned, asked, strict=False) for layer in own[count:]]
    kept = []
    for own, count in zip(owned, asked, strict=False):
        more = max(0, count - len(own))
        kept.append(tuple(sorted((*own[:count], *left[:more]))))
        left = left[more:]
    return tuple(kept)


def _mixed(kept: list[tuple[int, ...]], experts: Mapping[int, int], rooms: Sequence[int]) -> list[tuple[int, ...]]:
    """Layers of several sizes: another split over the GPUs may hold more bytes. Tried in full where that is quick."""
    by_size: dict[int, list[int]] = {}
    for layer, size in experts.items():
        by_size.setdefault(size, []).append(layer)
    sizes = tuple(sorted(by_size, reverse=True))
    there = tuple(len(by_size[size]) for size in sizes)
    if prod(layer_count + 1 for layer_count in there) * len(rooms) > QUICK_STATES:
        return kept
    filled, split = _best_split(tuple(rooms), sizes, there)
    if filled <= sum(experts[layer] for layers in kept for layer in layers):
        return kept
    waiting = {size: list(layers) for size, layers in by_size.items()}
    return [
        tuple(waiting[size].pop(0) for size, count in zip(sizes, counts, strict=True) for _ in range(count))
        for counts in split
    ]


def _best_split(
    rooms: tuple[int, ...], sizes: tuple[int, ...], there: tuple[int, ...]
) -> tuple[int, tuple[tuple[int, ...], ...]]:
    """The most bytes, and how many layers of each size go to each GPU."""

    @cache
    def best(index: int, left: tuple[int, ...]) -> tuple[int, tuple[tuple[int, ...], ...]]:
        if index == len(rooms):
            return 0, ()
        splits = []
        for counts in product(*(range(layer_count + 1) for layer_count in left)):
            here = sum(size * count for size, count in zip(sizes, counts, strict=True))
            if here <= rooms[index]:
                rest, split = best(index + 1, tuple(a - b for a, b in zip(left, counts, strict=True)))
                splits.append((here + rest, (counts, *split)))
        return max(splits)

    return best(0, there)


def _fill(room: int, layers: Sequence[int], experts: Mapping[int, int]) -> tuple[int, ...]:
    """The layers that fill the room best; of layers of one size those that come first."""
    by_size: dict[int, list[int]] = {}
    for layer in layers:
        by_size.setdefault(experts[layer], []).append(layer)
    sizes = sorted(by_size, reverse=True)
    counts = _best_counts(room, [(size, len(by_size[size])) for size in sizes]) if room > 0 and sizes else []
    return tuple(layer for size, count in zip(sizes, counts, strict=False) for layer in by_size[size][:count])


def _best_counts(room: int, sizes: Sequence[tuple[int, int]]) -> list[int]:
    """How many of each size, for the most bytes. Quants have one to three sizes of layers; more are filled by turns."""
    (size, there), *rest = sizes
    most = min(there, room // size)
    if not rest:
        return [most]
    tried = range(most, -1, -1) if len(sizes) <= EXACT_SIZES else (most,)
    best: list[int] = []
    best_bytes = -1
    for count in tried:
        counts = [count, *_best_counts(room - count * size, rest)]
        filled = sum(size_bytes * number for (size_bytes, _), number in zip(sizes, counts, strict=True))
        if filled > best_bytes:
            best, best_bytes = counts, filled
    return best


def _with_experts(load: DeviceLoad, layers: tuple[int, ...], experts: Mapping[int, int]) -> DeviceLoad:
    return DeviceLoad(
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
