"""Every model of the catalogue on many numbers of many GPUs: a build that fits is taken, and nothing is asked for that
would not help.

In the quick run a seeded sample of the pairs where it is close; all pairs are slow.
"""

from __future__ import annotations

import random
from itertools import product
from typing import NamedTuple

import pytest
from click.testing import CliRunner

from upright.app.cli.main import cli
from upright.facts import catalog
from upright.facts.records.box import Box
from upright.facts.records.plan import Goal
from upright.planning.choosing.artifacts import ArtifactChoice
from upright.planning.choosing.rule import faithful
from upright.planning.choosing.table import best_plan
from upright.planning.recommending.comparison import Prices
from upright.planning.requests.comparison import compare_requests
from upright.planning.requests.fleet_sizing import planned_configurations
from upright.planning.requests.plan_arguments import NamedBox, artifacts_of, box_named
from upright.planning.requests.plan_request import PlanRequest, plan_request

GPUS = (
    "rtx-3090", "rtx-4090", "rtx-5090", "rtx-3060", "rtx-2080", "rtx-pro-6000-server", "rtx-6000-ada", "l40s",
    "a100-sxm-80gb", "h100-sxm", "h200-sxm", "b200-sxm", "mi300x",
)  # fmt: skip
BOXES = (*(f"{count}x-{gpu}" for gpu, count in product(GPUS, (1, 2, 4, 6, 8))), "dgx-spark", "strix-halo-128gb")
NAMED = {("gpt-oss-120b", "4x-rtx-3090"), ("qwen3-32b", "4x-rtx-4090"), ("gpt-oss-20b", "1x-rtx-4090")}
SAMPLE = 40


class Pair(NamedTuple):
    model: str
    box: str


def _close(choice: ArtifactChoice, box: Box) -> bool:
    """Whether the native build may just not fit and another one may: neither alone is worth a plan."""
    room = sum(gpu.memory_bytes.value or 0 for gpu in box.gpus)
    builds = [model.tensor_bytes for model in choice.choose_from if faithful(model)]
    return choice.model.tensor_bytes > 0.3 * room and bool(builds) and min(builds) < room


def _pairs() -> list[Pair]:
    choices = {row.id: artifacts_of(row.id) for row in catalog.models()}
    boxes = {name: box_named(NamedBox(name)) for name in BOXES}
    return [Pair(model, name) for model, name in product(choices, boxes) if _close(choices[model], boxes[name])]


def _left_lying(pair: Pair) -> list[str]:
    """Builds that fit when they are named, though the model's name alone is said not to."""
    choice, box = artifacts_of(pair.model), box_named(NamedBox(pair.box))
    if best_plan(box, choice.model, Goal(), choose_from=choice.choose_from).fits:
        return []
    # What loses so much that it is another model is offered, and taken only by its own name.
    return [model.name for model in choice.choose_from if faithful(model) and best_plan(box, model, Goal()).fits]


def _faults(pairs: list[Pair]) -> list[str]:
    return [
        f"{pair.model} on {pair.box} does not fit, and {', '.join(lying)} would"
        for pair in pairs
        if (lying := _left_lying(pair))
    ]


def test_a_name_takes_a_build_that_fits_where_one_does() -> None:
    pairs = _pairs()
    sample = random.Random(42).sample(pairs, SAMPLE)
    assert {pair for pair in pairs if pair in NAMED} == NAMED
    faults = _faults(sorted({*sample, *(pair for pair in pairs if pair in NAMED)}))
    assert not faults, "\n".join(faults)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_every_name_takes_a_build_that_fits_where_one_does() -> None:
    faults = _faults(_pairs())
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize(("model", "box", "build"), [
    ("gpt-oss-120b", "4x-rtx-3090", "gpt-oss-120b"),
    ("qwen3-32b", "4x-rtx-4090", "Qwen3-32B-"),
])  # fmt: skip
def test_plan_render_and_compare_take_the_same_build(model: str, box: str, build: str) -> None:
    request = PlanRequest(artifacts_of(model), box_named(NamedBox(box)))
    planned = plan_request(request)
    assert planned.best.fits
    assert planned.best.model.startswith(build)
    (column,) = compare_requests([request], [Prices()]).columns
    assert (column.model, column.fits) == (planned.best.model, True)
    rendered = CliRunner().invoke(cli, ["render", model, "--box", box])
    assert rendered.exit_code == 0, rendered.output
    assert planned.artifact.source in rendered.output


@pytest.mark.parametrize(("model", "box"), [
    ("qwen3-coder-30b-a3b", "2x-rtx-5090"), ("minimax-m2.5", "2x-rtx-pro-6000-server"), ("glm-5.3", "8x-b200-sxm"),
])  # fmt: skip
def test_a_size_is_of_one_build_whatever_the_load(model: str, box: str) -> None:
    request = PlanRequest(artifacts_of(model), box_named(NamedBox(box)))
    assert {way.model for way in planned_configurations(request)} == {plan_request(request).best.model}


SMALL = ("1x-rtx-2080", "2x-rtx-3060", "1x-rtx-5090", "cpu")
DENSE = [row.id for row in catalog.models() if artifacts_of(row.id).model.architecture.experts is None]


def test_a_dense_model_is_offered_no_system_ram_for_experts() -> None:
    """On GPUs nothing of it is put there; without one everything is, and that is said without a word of experts."""
    pages = {
        (model, box): CliRunner().invoke(cli, ["plan", model, "--box", box]).output
        for model, box in product(DENSE, SMALL)
    }
    asking = {pair for pair, page in pages.items() if "--ram" in page or "system RAM" in page}
    assert any(box == "cpu" for _, box in asking)
    faults = [f"{pair}: {page}" for pair, page in pages.items() if "xperts" in page]
    faults += [f"{pair}: {pages[pair]}" for pair in sorted(asking) if pair[1] != "cpu"]
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize("verb", ["render", "compare"])
def test_the_other_verbs_offer_it_no_system_ram_either(verb: str) -> None:
    answer = CliRunner().invoke(cli, [verb, "qwen3-32b", "--box", "1x-rtx-2080"])
    assert answer.exit_code == 1
    assert "xperts" not in answer.output
    assert "--ram" not in answer.output
