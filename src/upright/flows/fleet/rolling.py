"""Rolling update: what runs becomes what fleet.yaml says, step by step, while clients go on.

Boxes join, leave, go elsewhere and get new recipes: drained, applied, proved, admitted. The first that fails its proof
is stepped back, and the roll stops. Every phase is on disk before it begins: a roll that was killed goes on.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from upright.base.errors import LaunchError
from upright.base.progress import Tell, utc_now
from upright.facts.records.fleet import Fleet, Roll, RollStep
from upright.flows.fleet import sentinel
from upright.flows.fleet.box_plans import BoxPlan, plan_fleet, refuse_unreachable
from upright.flows.fleet.box_steps import BoxSteps, StepStoppedError
from upright.flows.fleet.boxes import running_deployment
from upright.flows.fleet.directory import FleetDir
from upright.flows.fleet.fleet_state import refuse_impossible
from upright.flows.fleet.roll_plan import FleetStep, key_of, roll_steps, unfinished
from upright.flows.fleet.router_step import RouterStep
from upright.flows.fleet.waves import RollWidth, remaining, waves


@dataclass(frozen=True)
class RollResult:
    """What came of a roll; plans that do not fit stop it before anything is touched."""

    plans: tuple[BoxPlan, ...]
    roll: Roll | None = None

    @property
    def done(self) -> bool:
        return self.roll is not None and self.roll.outcome == "done"


def roll(fleet: Fleet, file: Path, *, tell: Tell, again: bool = False, width: RollWidth | None = None) -> RollResult:
    """`again` also restarts boxes that are as fleet.yaml has them."""
    refuse_unreachable(fleet.boxes)
    directory = FleetDir(fleet.name)
    if not directory.known:
        raise LaunchError(f"{fleet.name} was never started", hint=f"upright fleet up {file}")
    with directory.at_work():
        if not any(running_deployment(known) for known in directory.state().boxes):
            raise LaunchError(f"no box of {fleet.name} runs", hint=f"upright fleet up {file}")
        plans = plan_fleet(fleet, file.parent, tell=tell)
        if not all(box_plan.ready for box_plan in plans):
            return RollResult(tuple(plans))
        steps = roll_steps(fleet, directory, plans, again=again)
        refuse_impossible(directory.fleet(), fleet, steps)
        return RollResult(tuple(plans), _Rolling(fleet, file, directory, tell).run(steps, width or RollWidth()))


def roll_preview(fleet: Fleet, plans: list[BoxPlan], *, again: bool = False) -> tuple[FleetStep, ...] | None:
    """What a roll would do; None for a fleet of which nothing runs, and where plans do not fit."""
    directory = FleetDir(fleet.name)
    if not directory.known or not any(running_deployment(known) for known in directory.state().boxes):
        return None
    if not all(box_plan.ready for box_plan in plans):
        return None
    steps = roll_steps(fleet, directory, plans, again=again)
    refuse_impossible(directory.fleet(), fleet, steps)
    return steps


def planned_changes(fleet: Fleet, plans: list[BoxPlan], steps: tuple[FleetStep, ...] | None) -> list[dict[str, Any]]:
    """Each box with its plan and what a roll would do to it; boxes that would leave, and the router, come after."""
    changes = {step.name: step.to_dict() for step in steps or () if not step.is_router}
    rows = [{**box_plan.to_dict(), "change": changes.pop(box_plan.box.name, None)} for box_plan in plans]
    nothing = {"fits": True, "problem": None, "plan": None, "recipe": None}
    rows += [{"box": name, "at": None, **nothing, "change": change} for name, change in changes.items()]
    routers = [step.to_dict() for step in steps or () if step.is_router]
    return rows + [{"box": None, "at": fleet.router.at, **nothing, "change": change} for change in routers]


class _Rolling:
    def __init__(self, fleet: Fleet, file: Path, directory: FleetDir, tell: Tell) -> None:
        self.fleet, self.file, self.directory, self.tell = fleet, file, directory, tell
        state = directory.state()
        self.left = unfinished(state)
        last = state.roll
        self.resumed = last is not None and last.outcome == "going on"
        self.roll = last if last is not None and self.resumed else Roll(begun_at=utc_now())

    def run(self, steps: tuple[FleetStep, ...], width: RollWidth) -> Roll:
        if self.resumed:
            self.tell("going on with the roll that was interrupted")
        self._write(self.roll)
        planned = waves(steps, width, boxes=len(self.fleet.boxes))
        began = time.monotonic()
        for number, wave in enumerate(planned):
            if len(planned) > 1:
                names = ", ".join(step.name for step in wave)
                left = remaining(time.monotonic() - began, planned, number)
                self.tell(f"wave {number + 1} of {len(planned)}: {names}{left}")
            reasons = self._wave(wave)
            if reasons:
                return self._write(self.roll.model_copy(update={"outcome": "stopped", "reason": "; ".join(reasons)}))
        self.directory.create(self.fleet, self.file)
        sentinel.start_watchers(self.directory)
        return self._write(self.roll.model_copy(update={"outcome": "done"}))

    def _wave(self, wave: tuple[FleetStep, ...]) -> list[str]:
        """All of its steps to their end, good or bad; why some did not succeed."""
        together = frozenset(step.name for step in wave)
        if len(wave) == 1:
            outcomes = [self._outcome(wave[0], together)]
        else:
            with ThreadPoolExecutor(len(wave)) as pool:
                outcomes = list(pool.map(lambda step: self._outcome(step, together), wave))
        return [reason for reason in outcomes if reason is not None]

    def _outcome(self, step: FleetStep, together: frozenset[str]) -> str | None:
        left = self.left.get(step.key)
        try:
            if step.is_router:
                RouterStep(self.fleet, self.directory, self.tell, self._noted).take(step, left)
            else:
                BoxSteps(self.fleet, self.directory, self.tell, self._noted, together).take(step, left)
        except StepStoppedError as stopped:
            return str(stopped)
        return None

    def _noted(self, step: RollStep) -> None:
        """On disk before it is done."""
        with self.directory.writing:
            steps = {key_of(past): past for past in self.roll.steps} | {key_of(step): step}
            self._write(self.roll.model_copy(update={"steps": tuple(steps.values())}))

    def _write(self, roll: Roll) -> Roll:
        with self.directory.writing:
            self.roll = roll
            self.directory.change(lambda state: state.model_copy(update={"roll": roll}))
        return roll
