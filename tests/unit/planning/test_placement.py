"""Experts on random boxes: nothing over its budget, nothing in system RAM that still fits, as good as brute force."""

from __future__ import annotations

import random
from itertools import product

import pytest

from tests.unit.planning.planning_examples import box, model
from upright import Goal
from upright.base.units import GIB
from upright.engines.facets.budget import Margin
from upright.facts import catalog
from upright.facts.catalog.model_records import records
from upright.facts.records.base import Figure
from upright.models.deriving.catalogue_models import record
from upright.planning.choosing import plan
from upright.planning.memory.weights import stage_layers, tied
from upright.planning.placement.layers import LayerCase, plan_in_layers
from upright.planning.placement.placement import choose_expert_layers

K26 = {found.name: found for found in records(catalog.model("kimi-k2.6"))}
GGUFS = [found for found in K26.values() if found.format == "gguf"]


def machine(random_):
    """One to eight GPUs of one of several sizes, and some system RAM."""
    row = random_.choice(["rtx-pro-6000-max-q", "rtx-5090", "rtx-pro-6000-server"])
    count = random_.choice([1, 2, 3, 4, 6, 8])
    first = catalog.box_record("2x-rtx-pro-6000-max-q-epyc-9175f")
    gpu = catalog.box_record({"rtx-5090": "1x-rtx-5090"}.get(row, "1x-rtx-pro-6000-server")).gpus[0]
    gpus = []
    for index in range(count):
        size = int(gpu.memory_bytes.value * random_.choice([1, 1, 0.75, 0.5]))
        memory = Figure(value=size, basis="assumed", source="a random box")
        gpus.append(gpu.model_copy(update={"index": index, "memory_bytes": memory}))
    host = Figure(value=random_.randrange(256, 1600) * GIB, basis="assumed", source="a random box")
    return first.model_copy(update={"gpus": tuple(gpus), "memory_bytes": host, "memory_available_bytes": host})


@pytest.mark.parametrize("seed", range(200))
def test_random_boxes_and_artifacts(seed):
    random_ = random.Random(seed)
    on, artifact = machine(random_), random_.choice(GGUFS)
    context = random_.choice([4096, 65_536, 131_072])
    goal = Goal(context_tokens=context, users=random_.choice([1, 2]))
    found = plan_in_layers(LayerCase(on, artifact, goal, "ik_llama.cpp", Margin(GIB), None, context, "f16", ()))
    sizes = {line.layer: line.bytes for line in artifact.weights if line.group == "routed_experts"}
    placed = sorted(layer for place in found.expert_places for layer in place.layers)
    assert placed == sorted(sizes)
    if not found.fits:
        return
    waiting = [layer for place in found.expert_places if place.device == "host" for layer in place.layers]
    for budget in found.budgets:
        spare = budget.capacity_bytes - found.high_bytes(budget.device)
        assert spare >= 0, budget.device
        if budget.device != "host" and waiting:
            assert spare < min(sizes[layer] for layer in waiting), budget.device


@pytest.mark.parametrize("name", ["1x-rtx-5090", "dgx-spark"])
@pytest.mark.parametrize(
    "row", [row for row in catalog.models() if any(a.format == "gguf" for a in row.artifacts)], ids=lambda row: row.id
)
def test_every_byte_of_a_file_lies_somewhere(row, name):
    """But for drafts, which are not loaded unless they are asked for."""
    room = Figure(value=4000 * GIB, basis="assumed", source="more than enough")
    on = catalog.box_record(name).model_copy(update={"memory_bytes": room, "memory_available_bytes": room})
    artifact = next(made for a in row.artifacts if a.format == "gguf" and (made := record(row, a)) is not None)
    found = plan_in_layers(LayerCase(on, artifact, Goal(), "llama.cpp", Margin(GIB), None, 4096, "f16", ()))
    placed = sum(line.bytes for line in found.ledger if line.term in ("weights", "experts"))
    twice = (
        sum(line.bytes for line in artifact.weights if line.group == "embedding")
        if name == "1x-rtx-5090" and tied(artifact)
        else 0
    )
    read = sum(line.bytes for line in artifact.weights if line.group not in ("draft", "vision"))
    assert placed == pytest.approx(read + twice, rel=1e-6)


@pytest.mark.parametrize("seed", range(200))
def test_as_many_bytes_as_brute_force_finds(seed):
    random_ = random.Random(seed)
    gpus, layers = random_.choice([1, 2, 3]), random_.randint(2, 7)
    kinds = [random_.randint(3, 20) for _ in range(random_.randint(1, 3))]
    experts = {layer: random_.choice(kinds) for layer in range(layers)}
    rooms = [random_.randint(0, 40) for _ in range(gpus)]
    kept = choose_expert_layers(stage_layers(layers, gpus), experts, rooms)
    for layers_here, room in zip(kept, rooms, strict=True):
        assert sum(experts[layer] for layer in layers_here) <= room
    ours = sum(experts[layer] for layers_here in kept for layer in layers_here)
    best = max(filled(experts, rooms, choice) for choice in product(range(gpus + 1), repeat=layers))
    assert ours == best


def filled(experts, rooms, choice):
    """Bytes on GPUs if layer i goes to GPU choice[i], the last number being system RAM; -1 if a room is too small."""
    used = [0] * (len(rooms) + 1)
    for layer, device in enumerate(choice):
        used[device] += experts[layer]
    return sum(used[:-1]) if all(each <= room for each, room in zip(used, rooms, strict=False)) else -1


def test_head_and_tail_first():
    kept = choose_expert_layers(stage_layers(10, 2), dict.fromkeys(range(10), 5), [12, 11])
    assert kept == ((0, 1), (8, 9))


def test_a_gpu_with_room_to_spare_takes_layers_of_its_neighbour():
    kept = choose_expert_layers(stage_layers(4, 2), dict.fromkeys(range(4), 5), [0, 20])
    assert kept == ((), (0, 1, 2, 3))


def test_one_more_layer_is_worth_what_the_plan_says():
    on = catalog.box_record("2x-rtx-pro-6000-max-q-epyc-9175f")
    found = plan(on, K26["Kimi-K2.6-GGUF:IQ3_K"])[0]
    assert 0.1 < found.speed.layer_worth < 0.4
    small = plan(box(memory_gib=64), model(8))[0]
    assert small.speed is None or small.speed.layer_worth is None
