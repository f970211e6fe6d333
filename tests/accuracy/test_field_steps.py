"""Every step of the five field reports: what the page says of it is what its command does."""

from __future__ import annotations

import re
import shlex
from collections import Counter

import click
import pytest

from tests.accuracy.field_steps import VERDICTS, FieldStep, stated, steps, weeks
from upright.app.cli.main import cli

STEPS = list(steps())
TYPED = sorted({typed for each in [*STEPS, *weeks()] for typed in each.commands if " explain " not in typed})
"""`explain` takes the names of options."""
OF_REPORT = {"000": 19, "001": 13, "002": 13, "003": 11, "004": 19}
AT_LEAST_YES = 62


def test_no_step_is_merged_or_split():
    assert [step.step for step in STEPS] == list(range(1, 76))
    assert Counter(step.report for step in STEPS) == OF_REPORT
    assert {step.verdict for step in STEPS} <= set(VERDICTS)


def test_most_can_be_done():
    assert sum(step.verdict == "yes" for step in STEPS) >= AT_LEAST_YES


@pytest.mark.parametrize("step", [step for step in STEPS if step.run], ids=lambda step: f"{step.report}-{step.step}")
def test_the_commands_print_what_is_stated(step: FieldStep):
    assert step.complaints() == []


@pytest.mark.parametrize("step", STEPS, ids=lambda step: f"{step.report}-{step.step}")
def test_a_yes_is_executed_and_anything_else_says_why(step: FieldStep):
    assert step.commands
    if step.verdict == "yes":
        assert step.why is None
        assert step.shows or step.ours or step.test
        assert step.run or step.test
    else:
        assert step.why
    if step.ours and step.theirs and step.verdict == "yes":
        assert any(each is not None for each in (step.holds, step.near, step.within)), "nothing is held against theirs"


@pytest.mark.parametrize("step", [step for step in STEPS if step.test], ids=lambda step: f"{step.report}-{step.step}")
def test_a_test_that_a_step_names_is_there(step: FieldStep):
    named = step.named_test()
    assert named is not None, step.test
    path, name = named
    text = path.read_text(encoding="utf-8")
    assert re.search(rf"^(?:async )?def {name}\(", text, re.MULTILINE), step.test
    if step.ours_there:
        assert step.ours_there.replace(",", "") in text.replace("_", "").replace(",", "")


@pytest.mark.parametrize("typed", TYPED)
def test_a_command_has_the_options_that_it_is_typed_with(typed: str):
    words = shlex.split(typed)
    assert words.pop(0) == "upright"
    command: click.Command = cli
    while isinstance(command, click.Group):
        context = click.Context(command)
        command = command.get_command(context, words.pop(0)) or pytest.fail(typed)
    known = {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}
    assert [word for word in words if word.startswith("-") and word not in {*known, "--help"}] == []


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"exit": 1}, "ended with 0"),
        ({"shows": ("Kimi-K2.6: does not fit",)}, "does not print"),
        ({"hides": ("Kimi-K2.6: fits",)}, "prints"),
        ({"ours": r"(\d+) furlongs"}, "has no figure"),
        ({"within": (596, 610)}, "against"),
    ],
)
def test_each_statement_can_fail(changes: dict[str, object], complaint: str):
    told = FieldStep(**{**STEPS[0].__dict__, **changes}).complaints()
    assert [each for each in told if complaint in each]


def test_a_band_or_a_figure_that_is_off_is_told():
    banded = next(step for step in STEPS if step.holds)
    assert FieldStep(**{**banded.__dict__, "holds": 1e3}).complaints()
    near = next(step for step in STEPS if step.near and step.percent)
    assert FieldStep(**{**near.__dict__, "near": 2 * (near.near or 0)}).complaints()


def test_each_report_has_its_week():
    assert [week.report for week in weeks()] == list(stated()["reports"])
    assert all(week.commands and week.by_hand for week in weeks())
