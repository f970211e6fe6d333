"""How many boxes are out at once, and what comes before what."""

from __future__ import annotations

import pytest

from upright.base.errors import UsageError
from upright.facts.records.fleet import StepKind
from upright.flows.fleet.roll_plan import FleetStep
from upright.flows.fleet.waves import RollWidth, remaining, waves


def step(name: str, kind: StepKind = "recipe", takes: int = 0, holds: int = 0) -> FleetStep:
    return FleetStep(
        kind, name, (), takes=frozenset({("here", takes)} if takes else ()),
        holds=frozenset({("here", holds)} if holds else ()),
    )  # fmt: skip


def sizes(count: int, width: RollWidth) -> list[int]:
    steps = tuple(step(f"b{number}") for number in range(count))
    return [len(wave) for wave in waves(steps, width, boxes=count)]


def test_up_to_eight_boxes_one_after_the_other():
    assert sizes(8, RollWidth()) == [1] * 8


def test_above_that_a_canary_and_a_tenth():
    assert sizes(30, RollWidth()) == [1] + [3] * 9 + [2]
    assert sizes(12, RollWidth()) == [1] * 12


def test_as_asked():
    assert sizes(12, RollWidth(canary=2, max_unavailable="4")) == [2, 4, 4, 2]
    assert sizes(12, RollWidth(max_unavailable="25%")) == [1, 3, 3, 3, 2]
    assert sizes(12, RollWidth(canary=9, max_unavailable="3")) == [3, 3, 3, 3], "never more than may be out"
    assert sizes(2, RollWidth(max_unavailable="100%")) == [1, 1], "never all of them"


@pytest.mark.parametrize("text", ["0", "0%", "-1", "101%", "ten", " ", "1.5", "1" * 30])
def test_what_is_no_width(text: str):
    with pytest.raises(UsageError, match="is no number of boxes"):
        RollWidth(max_unavailable=text).at_once(10)


def test_the_router_is_alone_and_boxes_leave_apart():
    steps = (step("a"), step("b"), step("c", "remove"), step("router", "router"))
    assert [[one.name for one in wave] for wave in waves(steps, RollWidth(canary=2, max_unavailable="2"), boxes=4)] == [
        ["a", "b"],
        ["c"],
        ["router"],
    ]


def test_whoever_waits_for_a_port_is_in_a_later_wave():
    steps = (step("a", takes=2, holds=1), step("b", "move", takes=1, holds=3))
    assert len(waves(steps, RollWidth(canary=2, max_unavailable="2"), boxes=4)) == 2


def test_the_time_left_is_known_after_the_first_wave():
    planned = waves(tuple(step(name) for name in "abcd"), RollWidth(), boxes=4)
    assert remaining(60, planned, 0) == ""
    assert remaining(120, planned, 2) == "; about 2 min left"
