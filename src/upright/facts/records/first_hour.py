"""The first hour on a box: what was to be done, what came of each step, and which of our claims held."""

from collections.abc import Mapping
from typing import ClassVar, Literal

from pydantic import Field

from upright.facts.records.base import Json, Part, Reason, Record, Upgrade, fields_added
from upright.facts.records.names import SafeName
from upright.facts.records.plan import Goal
from upright.facts.records.recipe import Runtime

FieldAction = Literal["probe", "kernels", "fetch", "start", "prove", "bench"]
FieldVerdict = Literal["held", "wrong", "not judged"]
Ending = Literal["done", "failed", "not begun"]


class FieldStep(Part):
    """One step of the schedule, with what it may take."""

    name: SafeName
    """Its name in the schedule, no other's."""
    action: FieldAction
    """probe, kernels, fetch, start, prove or bench."""
    model: SafeName | None = None
    """The artifact, as `upright plan` takes it; None of a step that needs none."""
    engine: SafeName | None = None
    """Which engine; None of a step that needs none."""
    runtime: Runtime = "process"
    """process, podman or docker."""
    goal: Goal | None = None
    """What is planned and started: engine, context and parallelism, so that it is the same after a restart."""
    estimated_seconds: float
    """What it is expected to take; it is not begun if less is left."""
    estimate_why: str
    """How the estimate came about."""
    band: float | None = None
    """Width of the planner's widest band, as a share of its best figure; None where it has no figure at all."""
    known: str = ""
    """What the planner knows of it, in words."""
    why: str
    """Why it stands here."""


class FieldFigure(Part):
    """One figure that was planned, beside what was measured."""

    what: str
    """KV cache, decode, weights on gpu0, ..."""
    unit: str
    """tokens, tok/s, bytes or s."""
    planned: float | None
    """The plan's best figure; None if it has none."""
    low: float | None = None
    """Lower end of the plan's band."""
    high: float | None = None
    """Upper end of the plan's band."""
    measured: float
    """What the engine or the clock says."""

    @property
    def error(self) -> float | None:
        """Measured against planned, as a share of what was planned; None if nothing was."""
        if self.planned is None:
            return None
        if not self.planned:
            return 0.0 if not self.measured else None
        return self.measured / self.planned - 1

    @property
    def within(self) -> bool | None:
        """Whether the measured lies in the plan's band; None without one."""
        if self.low is None or self.high is None:
            return None
        return self.low <= self.measured <= self.high


class FieldOutcome(Part):
    """What came of one step."""

    step: SafeName
    """Which one."""
    ending: Ending
    """done, failed or not begun."""
    at: str
    """When it ended (UTC, ISO 8601)."""
    seconds: float = 0.0
    """What it took, with the attempts that were cut off."""
    why: Reason = ""
    """Why it failed or was not begun; what it showed if it was done."""
    deployment: SafeName | None = None
    """The deployment that it started or asked; None of other steps."""
    figures: tuple[FieldFigure, ...] = ()
    """What was planned and measured."""
    answers: dict[str, str] = Field(default_factory=dict)
    """Each rung's verdict of a proof; each kernel's of a check."""


class FieldBegun(Part):
    """The step that is under way: what a run that was cut off was doing."""

    step: SafeName
    """Which one."""
    at: str
    """When it began (UTC, ISO 8601)."""
    deployment: SafeName | None = None
    """The deployment that it started; None if it has not come so far."""
    seconds: float = 0.0
    """What earlier attempts at it took."""


class FieldCheck(Part):
    """One line of the table of what never ran on a GPU, judged."""

    claim: str
    """The line's name in the README."""
    verdict: FieldVerdict
    """held, wrong or not judged."""
    why: Reason
    """By which steps, or why not."""


class FieldTest(Record):
    """A field test as it goes: written before and after each step, so that a killed one goes on where it was."""

    kind: ClassVar[str] = "field-test"
    schema_version: ClassVar[int] = 4
    upgrades: ClassVar[Mapping[int, Upgrade]] = dict.fromkeys((1, 2, 3), fields_added)

    name: SafeName
    """Its name: the folder that it is kept in."""
    at: str
    """When it was scheduled (UTC, ISO 8601)."""
    upright: str
    """The version that scheduled it."""
    box: SafeName
    """Which machine."""
    box_identity: str
    """Which hardware: `Box.identity`."""
    gpus: tuple[SafeName, ...]
    """Its GPUs, by name; empty if it has none, and then no claim about GPUs is judged."""
    capabilities: tuple[SafeName, ...] = ()
    """Compute capabilities of its GPUs: `12.0` and the like."""
    budget_seconds: float
    """Time for all of it."""
    price_per_hour: float | None = None
    """What an hour of the box costs, in the person's own currency; None if nobody said."""
    spend_limit: float | None = None
    """What it may cost in all, in the same currency; None if only time is bounded."""
    spent_seconds: float = 0.0
    """What has been spent, over all runs; the time between two runs is not counted."""
    interruptions: int = 0
    """How often a run was cut off before its end."""
    steps: tuple[FieldStep, ...]
    """In the order in which they are tried."""
    left_out: tuple[Reason, ...] = ()
    """What would have been tried with more time, or on another box."""
    outcomes: tuple[FieldOutcome, ...] = ()
    """What came of the steps, in the order in which they ended."""
    under_way: FieldBegun | None = None
    """The step that was begun and has not ended."""
    checks: tuple[FieldCheck, ...] = ()
    """Every line of the table, judged; empty until the end."""

    @property
    def limit_seconds(self) -> float:
        """The time that budget and money allow together."""
        if self.spend_limit is None or not self.price_per_hour:
            return self.budget_seconds
        return min(self.budget_seconds, self.spend_limit / self.price_per_hour * 3600)

    @property
    def left_seconds(self) -> float:
        return max(0.0, self.limit_seconds - self.spent_seconds)

    @property
    def spent_money(self) -> float | None:
        return None if self.price_per_hour is None else self.spent_seconds / 3600 * self.price_per_hour

    def step(self, name: str) -> FieldStep:
        return next(step for step in self.steps if step.name == name)

    def outcome(self, name: str) -> FieldOutcome | None:
        return next((outcome for outcome in self.outcomes if outcome.step == name), None)


class FieldBundle(Record):
    """A field test for somebody else: the test and a statement of each deployment, redacted."""

    kind: ClassVar[str] = "field-bundle"
    schema_version: ClassVar[int] = 4
    upgrades: ClassVar[Mapping[int, Upgrade]] = dict.fromkeys((1, 2, 3), fields_added)

    test: FieldTest
    """What was done, and what came of it."""
    statements: tuple[Json, ...] = ()
    """One a deployment, as `upright share bundle --statement` makes it: `upright share verify` checks each."""
    redactions: dict[str, int] = Field(default_factory=dict)
    """What was taken out of the test, and how often; never its content."""
