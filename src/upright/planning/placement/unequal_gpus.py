"""GPUs of several kinds in one box: which of them an engine is shown, and how many layers each of them holds.

Layers are worked on one after the other, so that every byte on a slower card takes as much longer as its memory is
slower. What fits on the fast cards stays there; the slow ones get the rest, or nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from upright.base.units import GIB
from upright.facts.records.box import Box
from upright.facts.records.plan import LayerPlace
from upright.planning.placement.devices import Device, gpus
from upright.planning.placement.placement import (
    DeviceLoad,
    Overheads,
    PlacementJob,
    feasible,
    growing_bytes,
    outer_bytes,
    place,
)

_SLACK = (1.0, 1.03, 1.06, 1.1, 1.2)
"""Layers of one model differ in size: tried as if each were so many times the mean."""


def fastest_kinds(box: Box) -> Iterator[tuple[int, ...]]:
    """The fastest kind of GPU, the two fastest, and so on to all: in the order of their numbers."""
    rates = {gpu.index: device.bytes_per_second for gpu, device in zip(box.gpus, gpus(box), strict=True)}
    chosen: tuple[int, ...] = ()
    for kind in sorted(box.gpu_kinds, key=lambda kind: -rates[kind[0]]):
        chosen = tuple(sorted((*chosen, *kind)))
        yield chosen


def one_kind(devices: Sequence[Device]) -> bool:
    return len(_by_rate(devices)) < 2 and len({device.capability for device in devices}) < 2


def one_capability(box: Box) -> bool:
    return len({gpu.compute_capability for gpu in box.gpus}) == 1


def layer_places(devices: Sequence[Device], counts: Sequence[int]) -> tuple[LayerPlace, ...]:
    """Nothing where layers are spread evenly."""
    counted = zip(devices, counts, strict=True) if counts else ()
    return tuple(LayerPlace(device=device.name, layers=layers) for device, layers in counted)


def in_ratio(layers: int, rooms: Sequence[int]) -> tuple[int, ...]:
    """As many layers as there is memory for, by largest remainder; at least one each."""
    if (total := sum(max(0, room) for room in rooms)) == 0:
        return in_ratio(layers, [1] * len(rooms))
    if layers <= len(rooms):
        return (*([1] * min(layers, len(rooms))), *([0] * (len(rooms) - layers)))
    spare = layers - len(rooms)
    exact = [spare * max(0, room) / total for room in rooms]
    counts = [1 + int(share) for share in exact]
    by_remainder = sorted(range(len(rooms)), key=lambda index: int(exact[index]) - exact[index])
    for index in by_remainder[: layers - sum(counts)]:
        counts[index] += 1
    return tuple(counts)


def by_memory(job: PlacementJob, context_tokens: int, overheads: Overheads) -> tuple[int, ...]:
    """In the ratio of what each GPU has beside its scratch, the last beside the output matrix too."""
    return in_ratio(job.model.architecture.layers, _rooms(job, context_tokens, overheads, len(job.gpus) - 1))


def fastest_first(job: PlacementJob, context_tokens: int, overheads: Overheads) -> PlacementJob | None:
    """So many layers on the fast GPUs as fit there whole, experts and cache too. None where all do not hold them, or
    where one kind of them is not needed: without it nothing is slower.
    """
    for slack in _SLACK:
        counts = _filled(job, context_tokens, overheads, slack)
        filled = replace(job, layer_counts=counts) if counts else None
        if filled and _whole(filled, place(filled, context_tokens, overheads)):
            return filled
    return None


def _whole(job: PlacementJob, loads: Sequence[DeviceLoad]) -> bool:
    """Whether each GPU holds its own layers with their experts, and nothing is in system RAM."""
    own = all(set(load.expert_layers) <= set(part) for load, part in zip(loads, job.parts, strict=False))
    return own and not loads[-1].expert_layers and feasible(job, tuple(loads))


def _filled(job: PlacementJob, context_tokens: int, overheads: Overheads, slack: float) -> tuple[int, ...] | None:
    cache, _ = growing_bytes(job, context_tokens, overheads)
    layers = job.model.architecture.layers
    stored = sum(job.dense.values()) + sum(job.experts.values()) - job.dense.get(None, 0) - job.experts.get(None, 0)
    each = int(slack * (overheads.size_factor * stored + cache) / max(1, layers)) + 1
    last = len(job.gpus) - 1
    holds = [max(0, room) // each for room in _rooms(job, context_tokens, overheads, last)]
    counts, left = [0] * len(job.gpus), layers
    for kind in _by_rate(job.gpus):
        taken = min(left, sum(holds[index] for index in kind))
        for index in kind:
            counts[index] = taken * holds[index] // max(1, sum(holds[member] for member in kind))
        for index in sorted(kind, key=lambda index: counts[index] - holds[index]):
            if sum(counts[member] for member in kind) < taken and counts[index] < holds[index]:
                counts[index] += 1
        left -= taken
        if not taken:
            return None
    for idle in [index for index, count in enumerate(counts) if not count]:
        counts[counts.index(max(counts))] -= 1
        counts[idle] = 1
    return None if left else tuple(counts)


def _rooms(job: PlacementJob, context_tokens: int, overheads: Overheads, last: int) -> list[int]:
    _, scratch = growing_bytes(job, context_tokens, overheads)
    rooms = [budget - scratch - overheads.runtime for budget in job.gpu_budgets]
    rooms[last] -= int(overheads.size_factor * outer_bytes(job))
    return rooms


def _by_rate(devices: Sequence[Device]) -> list[list[int]]:
    """Places of the GPUs that are as fast as each other, the fastest first."""
    kinds: dict[tuple[float, int], list[int]] = {}
    for index, device in enumerate(devices):
        kinds.setdefault((-device.bytes_per_second, -round(device.reported_bytes / GIB)), []).append(index)
    return [kinds[kind] for kind in sorted(kinds)]
