"""Runs a field test step by step; every begin and outcome is on the disk before the next.

`kill -9` at any moment: the same test goes on with `--resume`. A step that ended is not done again; one that was cut
off is, and by its room's own journal it goes on where it was. What it started it ends.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from upright.base.bounds.files import open_lock, take_lock
from upright.base.errors import LaunchError, StoreError, UprightError, UsageError
from upright.base.home import home, make_private
from upright.base.progress import Tell, utc_now
from upright.base.units import format_duration
from upright.facts.records.box import Box
from upright.facts.records.first_hour import Ending, FieldBegun, FieldOutcome, FieldStep, FieldTest
from upright.facts.store import DeploymentDir, write_atomically
from upright.flows.first_hour.claims import checks
from upright.flows.first_hour.estimates import BOUNDED, END_SECONDS, corrected
from upright.flows.first_hour.field_bundle import pack
from upright.flows.first_hour.prediction_errors import prediction_error_lines
from upright.flows.first_hour.steps import StepInput, StepResult, run_step, stop_engine

PAGE = "what-was-wrong.txt"
_ALIVE_SECONDS = 1.0
RunStep = Callable[[StepInput], StepResult]


@dataclass(frozen=True)
class FieldTestResult:
    """A test that came to its end, and the files that it left."""

    test: FieldTest
    page: Path
    bundle: Path


def begin(test: FieldTest, box: Box) -> DeploymentDir:
    """A folder of its own, with the schedule in it."""
    folder = home() / "field-tests"
    make_private(folder)
    for number in range(1, 10_000):
        with suppress(FileExistsError):
            (folder / f"field-test-{number}").mkdir(mode=0o700)
            directory = DeploymentDir(folder / f"field-test-{number}")
            directory.write(box)
            directory.write(test.model_copy(update={"name": directory.name}))
            return directory
    raise StoreError(f"{folder} is full", hint="remove field tests that nobody needs")


def unfinished() -> DeploymentDir:
    """The newest test that has not come to its end."""
    folders = [DeploymentDir(path.parent) for path in (home() / "field-tests").glob(f"*/{FieldTest.kind}.json")]
    for directory in sorted(folders, key=lambda one: one.file(FieldTest).stat().st_mtime, reverse=True):
        if not directory.read(FieldTest).checks:
            return directory
    raise UsageError("no field test was cut off", hint="upright tools field-test")


def resumed(directory: DeploymentDir, budget_seconds: float | None = None) -> FieldTest:
    """What was cut off is charged until its last sign of life; what was not begun is tried again."""
    test = directory.read(FieldTest)
    update: dict[str, object] = {"outcomes": tuple(one for one in test.outcomes if one.ending != "not begun")}
    if budget_seconds is not None:
        update["budget_seconds"] = budget_seconds
    if test.under_way is not None:
        lost = max(0.0, _last_alive(directory) - datetime.fromisoformat(test.under_way.at).timestamp())
        begun = test.under_way.model_copy(update={"seconds": test.under_way.seconds + lost})
        update |= {
            "under_way": begun, "spent_seconds": test.spent_seconds + lost, "interruptions": test.interruptions + 1,
        }  # fmt: skip
    test = test.model_copy(update=update)
    directory.write(test)
    return test


def run(
    directory: DeploymentDir,
    bundle: Path,
    *,
    tell: Tell,
    clock: Callable[[], float] = time.monotonic,
    act: RunStep = run_step,
) -> FieldTestResult:
    """LaunchError if somebody else runs it. Ctrl-C ends the engine and leaves the test to be resumed."""
    with _alone(directory), _alive(directory):
        hour = _Hour(directory, tell, clock, act)
        try:
            for step in hour.test.steps:
                hour.take(step)
        finally:
            hour.end_engines()
        test = hour.keep(checks=checks(hour.test))
        page = directory.path / PAGE
        write_atomically(page, "".join(f"{line}\n" for line in prediction_error_lines(test)).encode())
        pack(test, hour.deployments(), directory, bundle, tell=tell)
        return FieldTestResult(test, page, bundle)


class _Hour:
    """A test as it runs."""

    def __init__(self, directory: DeploymentDir, tell: Tell, clock: Callable[[], float], act: RunStep) -> None:
        self.directory, self.tell, self.clock, self.act = directory, tell, clock, act
        self.test = directory.read(FieldTest)

    def keep(self, **fields: object) -> FieldTest:
        self.test = self.test.model_copy(update=fields)
        self.directory.write(self.test)
        return self.test

    def take(self, step: FieldStep) -> None:
        if self.test.outcome(step.name) is not None:
            return
        self.end_engines(but=self._deployment(step))
        if (why := self._not_begun(step)) is not None:
            self._note(step, "not begun", why, 0.0)
            return
        under_way = self.test.under_way
        if under_way is None or under_way.step != step.name:
            under_way = FieldBegun(step=step.name, at=utc_now())
        self.keep(under_way=under_way.model_copy(update={"at": utc_now()}))
        self.tell(f"{step.name} (about {format_duration(self._estimate(step))})")
        self._do(step, self.clock())

    def _do(self, step: FieldStep, began: float) -> None:
        case = StepInput(
            step, self.directory.read(Box), self._bounded(step), self._deployment(step), self.directory.write,
            self._started, self.tell,
        )  # fmt: skip
        try:
            done = self.act(case)
        except UprightError as error:
            done = StepResult(error.message, passed=False)
        took = self.clock() - began
        self._note(step, "done" if done.passed else "failed", done.why, took, done)

    def _note(self, step: FieldStep, ending: Ending, why: str, took: float, done: StepResult | None = None) -> None:
        begun = self.test.under_way
        earlier = begun.seconds if begun is not None and begun.step == step.name else 0.0
        deployment = self._deployment(step)
        outcome = FieldOutcome(
            step=step.name, ending=ending, at=utc_now(), seconds=round(took + earlier, 3), why=why,
            deployment=deployment.name if deployment else None, figures=done.figures if done else (),
            answers=done.answers if done else {},
        )  # fmt: skip
        self.keep(outcomes=(*self.test.outcomes, outcome), under_way=None, spent_seconds=self.test.spent_seconds + took)
        self.tell(f"{ending}: {step.name}: {why}")

    def _started(self, directory: DeploymentDir) -> None:
        assert self.test.under_way is not None
        self.keep(under_way=self.test.under_way.model_copy(update={"deployment": directory.name}))

    def _not_begun(self, step: FieldStep) -> str | None:
        """Another step that it stands on, or the time."""
        for before in self._stands_on(step):
            outcome = self.test.outcome(before)
            if outcome is not None and outcome.ending != "done":
                return f"{before} was not done"
        needed, left = self._estimate(step), self.test.left_seconds - END_SECONDS
        if needed > left:
            return f"needs about {format_duration(needed)}, and {format_duration(max(0.0, left))} are left"
        return None

    def _stands_on(self, step: FieldStep) -> list[str]:
        if step.action in ("prove", "bench"):
            return [_start_of(step)]
        if step.action == "start":
            return [other.name for other in self.test.steps if other.action == "fetch" and other.model == step.model]
        return []

    def _estimate(self, step: FieldStep) -> float:
        return corrected(step, self.test.steps, self.test.outcomes)

    def _bounded(self, step: FieldStep) -> float:
        """What it may take: a proof or a benchmark that was cut off does not begin its time anew."""
        begun = self.test.under_way
        spent = begun.seconds if begun is not None and step.action in BOUNDED else 0.0
        return max(1.0, self._estimate(step) - spent)

    def _deployment(self, step: FieldStep) -> DeploymentDir | None:
        if step.action not in ("start", "prove", "bench"):
            return None
        outcome, begun = self.test.outcome(_start_of(step)), self.test.under_way
        name = outcome.deployment if outcome is not None else None
        if name is None and begun is not None and begun.step == step.name:
            name = begun.deployment
        return DeploymentDir(home() / "deployments" / name) if name is not None else None

    def deployments(self) -> list[DeploymentDir]:
        """All that it has started, in their order."""
        begun = self.test.under_way
        names = [one.deployment for one in self.test.outcomes] + [begun.deployment if begun else None]
        return [DeploymentDir(home() / "deployments" / name) for name in dict.fromkeys(names) if name is not None]

    def end_engines(self, but: DeploymentDir | None = None) -> None:
        for directory in self.deployments():
            if but is None or directory.name != but.name:
                with suppress(UprightError):
                    stop_engine(directory)


def _start_of(step: FieldStep) -> str:
    return f"start {step.name.partition(' ')[2]}"


@contextmanager
def _alone(directory: DeploymentDir) -> Iterator[None]:
    descriptor = open_lock(directory.path / "lock")
    try:
        if not take_lock(descriptor):
            raise LaunchError(f"{directory.name} runs already", hint="wait for it, or end it")
        yield
    finally:
        os.close(descriptor)


@contextmanager
def _alive(directory: DeploymentDir) -> Iterator[None]:
    """A sign of life every second: what a killed run had spent."""
    ended, sign = threading.Event(), directory.path / "alive"

    def breathe() -> None:
        while not ended.wait(_ALIVE_SECONDS):
            with suppress(OSError):
                sign.touch()

    sign.touch()
    breathing = threading.Thread(target=breathe, daemon=True)
    breathing.start()
    try:
        yield
    finally:
        ended.set()
        breathing.join()


def _last_alive(directory: DeploymentDir) -> float:
    try:
        return (directory.path / "alive").stat().st_mtime
    except OSError:
        return datetime.now(UTC).timestamp()
