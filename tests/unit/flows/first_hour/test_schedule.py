"""Box + limits -> steps: bounded, in their order, what is known least first."""

from __future__ import annotations

from itertools import pairwise

import pytest

from upright.base.errors import UsageError
from upright.facts import catalog
from upright.facts.records.first_hour import FieldOutcome, FieldTest
from upright.flows.first_hour import estimates
from upright.flows.first_hour.cells import CellSource
from upright.flows.first_hour.request import FieldRequest, schedule_field_test
from upright.flows.first_hour.schedule import FieldOptions, FieldSchedule, make_schedule
from upright.flows.first_hour.uncertainty import uncertainty_key

BOX = "dgx-spark"


def scheduled(seconds: float = 3600, box: str = BOX) -> FieldSchedule:
    return make_schedule(catalog.box_record(box), FieldOptions(seconds))


@pytest.mark.parametrize("box", ["8x-rtx-pro-6000-server", "dgx-spark", "8x-b200-sxm"])
@pytest.mark.parametrize("minutes", [20, 60, 180])
def test_it_keeps_to_its_time_and_names_what_is_left_out(box: str, minutes: int) -> None:
    schedule = scheduled(minutes * 60, box)
    assert sum(step.estimated_seconds for step in schedule.steps) + estimates.END_SECONDS <= minutes * 60
    assert len({step.name for step in schedule.steps}) == len(schedule.steps)
    assert schedule.left_out or minutes > 20


def test_what_everything_stands_on_comes_first_then_the_smallest_then_the_largest() -> None:
    steps = scheduled().steps
    actions = [step.action for step in steps]
    assert actions[0] == "probe"
    assert actions[1 : 1 + actions.count("kernels")] == ["kernels"] * actions.count("kernels")
    fetches = [step for step in steps if step.action == "fetch"]
    assert fetches[0].estimated_seconds == min(step.estimated_seconds for step in fetches)
    assert fetches[1].estimated_seconds == max(step.estimated_seconds for step in fetches)
    starts = [step for step in steps if step.action == "start"]
    assert [step.why for step in starts[:2]] == [
        "the smallest real model: whatever fails here fails cheaply", "the largest that fits memory and time",
    ]  # fmt: skip


def test_the_rest_goes_by_what_is_known_least() -> None:
    rest = [step for step in scheduled().steps if step.action == "start" and "known least" in step.why]
    assert len(rest) >= 2
    for before, after in pairwise(rest):
        unknown, known = before.band is None, after.band is None
        assert unknown >= known
        if "measured" in before.known:
            assert "measured" in after.known


def test_cells_of_a_model_are_ordered_by_their_bands() -> None:
    box = catalog.box_record("8x-rtx-pro-6000-server")
    source = CellSource.of(box, None)
    from upright.flows.first_hour.cells import artifacts_for

    model = next(model for model in artifacts_for(box) if model.source == "moonshotai/Kimi-K2.6")
    cells = source.cells(model)
    assert [uncertainty_key(cell.plan) for cell in cells] == sorted(
        (uncertainty_key(cell.plan) for cell in cells), reverse=True
    )
    assert any("DCP8" in cell.label for cell in cells)


def test_a_cell_is_planned_again_as_it_was() -> None:
    box = catalog.box_record("8x-rtx-pro-6000-server")
    source = CellSource.of(box, None)
    from upright.flows.first_hour.cells import artifacts_for

    model = next(model for model in artifacts_for(box) if model.source == "moonshotai/Kimi-K2.6")
    for cell in source.cells(model):
        again = [way.plan for way in source.ways(model, cell.goal) if way.plan.fits]
        assert cell.plan.parallel in [plan.parallel for plan in again], cell.label


def test_too_little_time_is_said_with_what_is_needed() -> None:
    with pytest.raises(UsageError, match=r"too short for the smallest model: .* needs about"):
        scheduled(60)


def test_a_model_that_is_at_hand_is_not_fetched() -> None:
    wish = FieldOptions(3600, at_hand=lambda model: True)
    assert all(step.action != "fetch" for step in make_schedule(catalog.box_record(BOX), wish).steps)


def test_an_engine_that_is_not_there_is_not_scheduled() -> None:
    wish = FieldOptions(3600, engines=frozenset({"vllm"}))
    assert {step.engine for step in make_schedule(catalog.box_record(BOX), wish).steps if step.engine} == {"vllm"}


def test_money_bounds_time() -> None:
    request = FieldRequest(3600, 5.0, 10.0, (), 0.5e9)
    test = schedule_field_test(catalog.box_record(BOX), request, here=False)
    assert test.limit_seconds == 1800
    assert sum(step.estimated_seconds for step in test.steps) <= 1800
    with pytest.raises(UsageError, match="needs a price"):
        schedule_field_test(catalog.box_record(BOX), FieldRequest(3600, 5.0, None, (), 0.5e9), here=False)


def test_what_a_step_took_corrects_the_next_of_its_kind() -> None:
    steps = scheduled().steps
    first, second = [step for step in steps if step.action == "fetch"][:2]
    took = FieldOutcome(step=first.name, ending="done", at="", seconds=2 * first.estimated_seconds)
    assert estimates.corrected(second, steps, [took]) == pytest.approx(2 * second.estimated_seconds)
    start = next(step for step in steps if step.action == "start")
    assert estimates.corrected(start, steps, [took]) == start.estimated_seconds


def test_a_test_is_a_record() -> None:
    test = schedule_field_test(catalog.box_record(BOX), FieldRequest(3600, None, None, (), 0.5e9), here=False)
    from upright.facts.records.base import from_json

    assert from_json(FieldTest, test.to_json()) == test
