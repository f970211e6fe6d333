"""A field test as it goes: bounded, resumable at any moment, and no step that ended is done twice."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from upright.base.errors import LaunchError, UsageError
from upright.facts import catalog
from upright.facts.records.base import from_json
from upright.facts.records.first_hour import FieldBundle, FieldFigure, FieldTest
from upright.facts.store import DeploymentDir
from upright.flows.first_hour.claims import claims
from upright.flows.first_hour.field_test import begin, resumed, run, unfinished
from upright.flows.first_hour.prediction_errors import figures_by_error, prediction_error_lines
from upright.flows.first_hour.request import FieldRequest, schedule_field_test
from upright.flows.first_hour.steps import StepInput, StepResult

Act = Callable[[StepInput], StepResult]


class KilledError(BaseException):
    """Stands for SIGKILL: nothing between here and the top of the process may handle it."""


class Clock:
    """Time that passes when a step says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(autouse=True)
def _home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("UPRIGHT_HOME", str(tmp_path / "home"))


def begun(seconds: float = 3600, price: float | None = None, limit: float | None = None) -> DeploymentDir:
    box = catalog.box_record("dgx-spark")
    return begin(schedule_field_test(box, FieldRequest(seconds, limit, price, (), 0.5e9), here=False), box)


def taking(clock: Clock, times: float = 1.0, log: list[str] | None = None) -> Act:
    def act(case: StepInput) -> StepResult:
        clock.now += times * case.step.estimated_seconds
        if log is not None:
            log.append(case.step.name)
        return StepResult("it was done")

    return act


def test_all_steps_are_done_in_their_order_and_one_bundle_is_left(tmp_path: Path) -> None:
    directory, clock, log = begun(), Clock(), list[str]()
    done = run(directory, tmp_path / "b.json", tell=print, clock=clock, act=taking(clock, log=log))
    assert log == [step.name for step in done.test.steps]
    assert {outcome.ending for outcome in done.test.outcomes} == {"done"}
    assert done.test.spent_seconds == pytest.approx(sum(step.estimated_seconds for step in done.test.steps))
    assert len(done.test.checks) == len(claims())
    assert done.page.read_text().startswith("What Upright was wrong about\n")
    assert from_json(FieldBundle, (tmp_path / "b.json").read_bytes()).test.outcomes == done.test.outcomes
    with pytest.raises(UsageError, match="no field test was cut off"):
        unfinished()


def test_a_step_that_does_not_fit_what_is_left_is_not_begun(tmp_path: Path) -> None:
    directory, clock, log = begun(), Clock(), list[str]()
    done = run(directory, tmp_path / "b.json", tell=print, clock=clock, act=taking(clock, 3.0, log))
    assert done.test.spent_seconds <= done.test.limit_seconds * 2, "a step that was begun may take longer than thought"
    late = [outcome for outcome in done.test.outcomes if outcome.ending == "not begun"]
    assert late
    assert all(outcome.step not in log for outcome in late)
    assert any("needs about" in outcome.why for outcome in late)


def test_slow_downloads_are_known_after_the_first(tmp_path: Path) -> None:
    directory, clock, log = begun(2400), Clock(), list[str]()

    def slow(case: StepInput) -> StepResult:
        clock.now += case.step.estimated_seconds * (10 if case.step.action == "fetch" else 1)
        log.append(case.step.name)
        return StepResult("")

    done = run(directory, tmp_path / "b.json", tell=print, clock=clock, act=slow)
    first, largest = [step for step in done.test.steps if step.action == "fetch"][:2]
    assert first.name in log
    assert largest.name not in log, "ten times as long as it was thought to take is more than is left"


def test_money_is_spent_within_its_limit(tmp_path: Path) -> None:
    directory, clock = begun(price=6.0, limit=3.0), Clock()
    done = run(directory, tmp_path / "b.json", tell=print, clock=clock, act=taking(clock))
    assert done.test.spent_money is not None
    assert done.test.spent_money <= 3.0
    assert done.test.limit_seconds == 1800


def test_what_stands_on_a_step_that_failed_is_not_begun(tmp_path: Path) -> None:
    directory, clock, log = begun(), Clock(), list[str]()

    def act(case: StepInput) -> StepResult:
        log.append(case.step.name)
        if case.step.action == "start":
            raise LaunchError("it ended at once")
        return StepResult("")

    done = run(directory, tmp_path / "b.json", tell=print, clock=clock, act=act)
    assert not [name for name in log if name.startswith(("prove", "bench"))]
    assert any(check.verdict == "wrong" and "it ended at once" in check.why for check in done.test.checks)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_killed_ten_times_it_goes_on_and_repeats_nothing_that_ended(seed: int, tmp_path: Path) -> None:
    chance, clock, attempts, ended = random.Random(seed), Clock(), Counter[str](), Counter[str]()
    directory = begun()

    def act(case: StepInput) -> StepResult:
        attempts[case.step.name] += 1
        if sum(attempts.values()) - sum(ended.values()) <= 10 and chance.random() < 0.6:
            raise KilledError
        clock.now += case.step.estimated_seconds
        ended[case.step.name] += 1
        return StepResult("it was done")

    kills = 0
    while True:
        try:
            done = run(unfinished(), tmp_path / "b.json", tell=print, clock=clock, act=act)
            break
        except KilledError:
            kills += 1
            resumed(directory)
    assert kills >= 5
    assert done.test.interruptions == kills
    assert ended == Counter(step.name for step in done.test.steps), "each ended once"
    assert [path.name for path in tmp_path.glob("*.json")] == ["b.json"]


def test_more_time_begins_what_was_not_begun(tmp_path: Path) -> None:
    directory, clock, log = begun(), Clock(), list[str]()

    def cut(case: StepInput) -> StepResult:
        if case.step.action == "bench":
            raise KilledError
        clock.now += 2 * case.step.estimated_seconds
        return StepResult("")

    with pytest.raises(KilledError):
        run(directory, tmp_path / "b.json", tell=print, clock=clock, act=cut)
    assert resumed(directory, 4 * 3600).limit_seconds == 4 * 3600
    done = run(directory, tmp_path / "b.json", tell=print, clock=clock, act=taking(clock, log=log))
    assert {outcome.ending for outcome in done.test.outcomes} == {"done"}


def test_two_at_once_are_refused(tmp_path: Path) -> None:
    directory, clock = begun(), Clock()

    def act(case: StepInput) -> StepResult:
        with pytest.raises(LaunchError, match="runs already"):
            run(directory, tmp_path / "c.json", tell=print, clock=clock, act=taking(clock))
        return StepResult("")

    run(directory, tmp_path / "b.json", tell=print, clock=clock, act=act)
    assert not (tmp_path / "c.json").exists()


def test_the_worst_figure_stands_first(tmp_path: Path) -> None:
    directory, clock = begun(), Clock()
    near = FieldFigure(what="near", unit="tok/s", planned=100, low=90, high=110, measured=105)
    far = FieldFigure(what="far", unit="tok/s", planned=100, low=90, high=110, measured=200)
    off = FieldFigure(what="off", unit="bytes", planned=100, low=90, high=110, measured=80)
    done = run(
        directory, tmp_path / "b.json", tell=print, clock=clock,
        act=lambda case: StepResult("", figures=(near, off, far) if case.step.action == "probe" else ()),
    )  # fmt: skip
    assert [one.figure.what for one in figures_by_error(done.test)] == ["far", "off", "near"]
    lines = list(prediction_error_lines(done.test))
    assert lines[3] == "2 of 3 figures are outside what was planned"
    assert "far: 200 tok/s measured, 100 tok/s planned (90 tok/s to 110 tok/s), +100%" in lines[4]


def test_a_bundle_holds_no_name_of_the_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "hunter2hunter2")
    directory, clock = begun(), Clock()
    test = directory.read(FieldTest).model_copy(update={"box": "margarets-desktop"})
    directory.write(test)
    run(
        directory, tmp_path / "b.json", tell=print, clock=clock,
        act=lambda case: StepResult(f"with hunter2hunter2 in {tmp_path / 'home'}"),
    )  # fmt: skip
    text = (tmp_path / "b.json").read_text()
    assert "margarets" not in text
    assert "hunter2" not in text
    assert str(tmp_path / "home") not in text
