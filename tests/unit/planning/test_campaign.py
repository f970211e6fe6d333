"""Which cells to measure in so many minutes: within the time and the cache, and better than any that come by chance."""

from __future__ import annotations

import random
from statistics import median

import pytest

from tests.unit.planning.planning_examples import box, model
from upright import Goal
from upright.base.errors import UprightError
from upright.facts import catalog
from upright.facts.catalog.model_records import records
from upright.facts.records.base import Figure
from upright.planning.choosing import plan
from upright.planning.rendering.recipe import RenderOptions, render
from upright.planning.speed import campaign as campaigns
from upright.planning.speed.calibration import deployment_case
from upright.planning.speed.campaign import MOST_CELLS, campaign

EIGHT = catalog.box_record("8x-rtx-pro-6000-server")
KIMI = records(catalog.model("kimi-k2.6"))[0]


@pytest.fixture(scope="module")
def ranks():
    return deployment_case(plan(EIGHT, KIMI, Goal(engine="vllm", context_tokens=8192))[0], KIMI, EIGHT)


@pytest.fixture(scope="module")
def processor():
    known = Figure(value=40e9, basis="measured", source="a triad")
    machine = box(memory_gib=64).model_copy(update={"memory_bandwidth_measured_bytes_per_second": known})
    artifact = model(8)
    goal = Goal(engine="llama.cpp", context_tokens=8192, users=4)
    return deployment_case(plan(machine, artifact, goal)[0], artifact, machine)


@pytest.mark.parametrize("minutes", [3, 5, 10, 30])
def test_the_cells_take_no_more_than_the_time_and_fit_the_cache(ranks, minutes):
    made = campaign(ranks, 60 * minutes)
    recipe = render(
        ranks.plan, KIMI, EIGHT, model_path="weights", port=8000, wishes=RenderOptions(must_be_installed=False)
    )
    admitted = int(next(setting.value for setting in recipe.arguments if setting.name == "--max-num-seqs"))
    assert 1 <= len(made.cells) <= MOST_CELLS
    assert made.seconds <= 60 * minutes
    for cell in made.cells:
        tokens = cell.prompt_tokens + cell.output_tokens
        assert tokens <= ranks.plan.context_tokens
        assert cell.users * tokens <= ranks.plan.kv.low_tokens
        assert cell.users <= admitted
    assert len({(cell.users, cell.prompt_tokens) for cell in made.cells}) == len(made.cells)


def test_more_time_tells_more(ranks):
    made = [campaign(ranks, 60 * minutes) for minutes in (3, 5, 10, 30)]
    assert len({round(each.uncertain_before, 9) for each in made}) == 1
    after = [each.uncertain_after for each in made]
    assert after == sorted(after, reverse=True)
    assert after[-1] < 0.5 * made[0].uncertain_before


@pytest.mark.parametrize("seconds", [300, 450, 900])
def test_they_tell_more_than_as_much_time_spent_by_chance(ranks, seconds):
    loads = [load for load in campaigns._candidates(ranks, campaigns.REPEATS) if load.seconds <= seconds / 6]
    everywhere = list(campaigns._candidates(ranks, campaigns.REPEATS))
    names = sorted({name for load in everywhere for name in load.shares})
    by_chance = []
    for seed in range(20):
        knowledge, left = campaigns._Knowledge(names, ranks.row), float(seconds)
        for load in random.Random(seed).sample(loads, len(loads)):
            if load.seconds <= left:
                knowledge.learn(load)
                left -= load.seconds
        by_chance.append(knowledge.uncertainty(everywhere))
    assert campaign(ranks, seconds).uncertain_after < median(by_chance)


def test_an_engine_with_slots_is_never_asked_by_more_than_it_has(processor):
    users = {cell.users for cell in campaign(processor, 360_000).cells}
    assert users == {1, 2, 4}


def test_the_full_context_is_among_them_where_time_allows(processor):
    longest = max(cell.prompt_tokens + cell.output_tokens for cell in campaign(processor, 360_000).cells)
    assert longest == processor.plan.context_tokens


def test_too_little_time_says_how_much_is_enough(processor):
    with pytest.raises(UprightError, match="no cell can be measured in 1 s") as caught:
        campaign(processor, 1)
    enough = int(caught.value.hint.removeprefix("--budget ").removesuffix("s"))
    assert campaign(processor, enough).cells
