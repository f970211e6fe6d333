"""`bench --workload calibrate`: the cells are the plan's own, and nobody else's."""

from __future__ import annotations

from dataclasses import replace

import pytest

from upright import Goal
from upright.base.errors import UsageError
from upright.facts import catalog
from upright.facts.catalog.model_records import records
from upright.facts.store import DeploymentDir
from upright.planning.choosing import plan
from upright.planning.requests.calibration import measurement_plan
from upright.proof.benchmark.bench import planned_cells
from upright.proof.benchmark.sweep import sweep_request

BOX = catalog.box_record("8x-rtx-pro-6000-server")
KIMI = records(catalog.model("kimi-k2.6"))[0]
DEFAULTS = dict.fromkeys(("concurrency", "prompt_tokens", "output_tokens", "requests", "rate"))


def asked(workload="calibrate", **changes):
    options = {"repeats": 3, "budget": 600.0, "ttft": 2.0, "tpot": 0.05, "seed": 0, "fresh": False, "api": "chat"}
    return sweep_request(workload, **{**DEFAULTS, **options, **changes})


@pytest.fixture
def directory(tmp_path):
    made = DeploymentDir(tmp_path)
    planned = plan(BOX, KIMI, Goal(engine="vllm", context_tokens=65_536))[0]
    for record in (planned, KIMI, BOX):
        made.write(record)
    return made


def shapes(request):
    return [(shape.concurrency, shape.prompt_tokens, shape.output_tokens, shape.requests) for shape in request.shapes]


def test_they_are_those_that_the_plan_lists(directory):
    planned = plan(BOX, KIMI, Goal(engine="vllm", context_tokens=65_536))[0]
    listed = measurement_plan(planned, KIMI, BOX, 600.0).cells
    assert shapes(planned_cells(asked(), directory)) == [
        (cell.users, cell.prompt_tokens, cell.output_tokens, 2 * cell.users) for cell in listed
    ]


def test_measured_more_often_they_are_fewer_or_shorter(directory):
    often = planned_cells(replace(asked(), repeats=9), directory)
    assert shapes(often) != shapes(planned_cells(asked(), directory))


def test_another_workload_is_left_as_it_was_asked_for(directory):
    short = asked("short")
    assert planned_cells(short, directory) is short


@pytest.mark.parametrize("change", [{"concurrency": (4,)}, {"prompt_tokens": 512}, {"requests": 9}, {"rate": 2.0}])
def test_what_the_cells_are_is_not_for_options_to_say(directory, change):
    with pytest.raises(UsageError, match="chooses its own cells"):
        planned_cells(asked(**change), directory)


def test_an_endpoint_that_was_not_planned_has_none(tmp_path):
    with pytest.raises(UsageError, match="follows a plan"):
        planned_cells(asked(), DeploymentDir(tmp_path))
