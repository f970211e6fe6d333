"""Fleet -> the same boxes with new recipes, one after the other, while clients go on.

Each box is drained, restarted, proved and admitted again before the next. The first that fails its proof is stepped
back to the recipe it had, and the roll stops. Every phase is on disk before it begins: a roll that was killed goes on.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from upright.errors import LaunchError, UprightError
from upright.fleet.boxes import (
    deployment_of,
    in_place,
    measure_anew,
    refuse_moved,
    running,
    same_start,
    wait_until_idle,
)
from upright.fleet.directory import FleetDir, FleetKeys
from upright.fleet.preparing import BoxPlan, plan_fleet, tell_of
from upright.fleet.starting import admit
from upright.launching import restart
from upright.line import Prepared, climb
from upright.progress import Tell, utc_now
from upright.proving.stepping import recipe_of
from upright.records.fleet import Fleet, FleetBox, Phase, Roll, RollStep
from upright.records.recipe import Recipe
from upright.store import DeploymentDir

_UNFINISHED: tuple[Phase, ...] = ("draining", "restarting", "proving", "admitting", "stepping back")


@dataclass(frozen=True)
class Rolled:
    """What came of a roll; plans that do not fit stop it before anything is touched."""

    plans: tuple[BoxPlan, ...]
    roll: Roll | None = None

    @property
    def done(self) -> bool:
        return self.roll is not None and self.roll.outcome == "done"


class _StoppedError(Exception):
    """This box could not be given its new recipe."""


def roll(fleet: Fleet, file: Path, *, tell: Tell, again: bool = False) -> Rolled:
    """`again` also restarts boxes whose recipe is already the wanted one."""
    directory = FleetDir(fleet.name)
    if not directory.known:
        raise LaunchError(f"{fleet.name} was never started", hint=f"upright fleet up {file}")
    with directory.at_work():
        state = directory.state()
        refuse_moved(fleet, file, state)
        missing = [box.name for box in fleet.boxes if in_place(box, state.box(box.name).deployment) is None]
        if missing:
            raise LaunchError(
                f"{', '.join(missing)} of {fleet.name} was never started", hint=f"upright fleet up {file}"
            )
        plans = plan_fleet(fleet, file.parent, tell=tell)
        if not all(box_plan.ready for box_plan in plans):
            return Rolled(tuple(plans))
        directory.create(fleet, file)
        rolling = _Rolling(fleet, directory, directory.keys(), tell)  # a new client key comes with the router's restart
        wanted = [(box_plan.box, box_plan.prepared) for box_plan in plans if box_plan.prepared is not None]
        return Rolled(tuple(plans), rolling.run(wanted, again=again))


def would_change(fleet: Fleet, plans: list[BoxPlan]) -> dict[str, bool]:
    """Which boxes a roll would restart."""
    state, changes = FleetDir(fleet.name).state(), {}
    for box_plan in plans:
        known = state.box(box_plan.box.name)
        here, recipe = deployment_of(known), box_plan.prepared.recipe if box_plan.prepared else None
        same = here is not None and recipe is not None and same_start(here.read(Recipe), recipe)
        changes[box_plan.box.name] = not (same and known.admitted and running(known))
    return changes


class _Rolling:
    def __init__(self, fleet: Fleet, directory: FleetDir, keys: FleetKeys, tell: Tell) -> None:
        self.fleet, self.directory, self.keys, self.tell = fleet, directory, keys, tell
        last = directory.state().roll
        self.resumed = last if last is not None and last.outcome == "going on" else None
        self.roll = self.resumed or Roll(begun_at=utc_now())

    def run(self, wanted: list[tuple[FleetBox, Prepared]], *, again: bool) -> Roll:
        if self.resumed is not None:
            self.tell("going on with the roll that was interrupted")
        self._write(self.roll)
        for box, prepared in wanted:
            try:
                self._box(box, prepared, again=again)
            except _StoppedError as stopped:
                return self._write(self.roll.model_copy(update={"outcome": "stopped", "reason": str(stopped)}))
        return self._write(self.roll.model_copy(update={"outcome": "done"}))

    def _box(self, box: FleetBox, prepared: Prepared, *, again: bool) -> None:
        tell, recipe = tell_of(box, self.tell), prepared.recipe
        assert recipe is not None
        known = self.directory.state().box(box.name)
        here = deployment_of(known)
        assert here is not None, "a roll begins with boxes that were started"
        left = self._step(box)
        unfinished = left is not None and left.phase in _UNFINISHED
        done = left is not None and left.phase == "done"
        present = here.read(Recipe)
        if same_start(present, recipe) and running(known) and known.admitted and not unfinished and (done or not again):
            tell("has the wanted recipe")
            return
        if left is not None and left.phase == "stepping back":
            self._step_back(box, here, recipe_of(here, left.before), left.reason or "interrupted", tell)
        before = recipe_of(here, left.before) if left is not None and unfinished else present
        self._drain(box, here, before, recipe, tell)
        self._phase(box, "restarting", before, recipe)
        reason = self._restarted_and_proved(box, here, before, recipe, tell)
        if reason is not None:
            self._step_back(box, here, before, reason, tell)
        for record in (prepared.box, prepared.model, prepared.plan):  # what the recipe it now has was made from
            here.write(record)
        measure_anew(here, tell)
        self._phase(box, "admitting", before, recipe)
        self._admit(box, tell)
        self._phase(box, "done", before, recipe)
        tell("done")

    def _drain(self, box: FleetBox, here: DeploymentDir, before: Recipe, recipe: Recipe, tell: Tell) -> None:
        state = self.directory.state()
        others = [state.box(other.name) for other in self.fleet.boxes if other.name != box.name]
        others = [other for other in others if other.admitted and running(other)]  # of those that the router would list
        if not others and state.box(box.name).admitted:
            raise _StoppedError(f"{box.name} is the only box that answers: a roll would leave clients without one")
        self._phase(box, "draining", before, recipe)
        tell("draining")
        try:
            admit(self.fleet, self.directory, self.keys, box.name, admitted=False)
        except UprightError as error:
            admit(self.fleet, self.directory, self.keys, box.name, admitted=True, wait=False)
            raise _StoppedError(f"{box.name} was not drained: {error.message}") from None
        if running(state.box(box.name)) is None:
            return
        left = wait_until_idle(here, seconds=self.fleet.drain_seconds, tell=tell)
        if left is None:
            self._put_back(box, before, recipe, "it does not tell how many requests it has", tell)
            raise _StoppedError(f"{box.name} does not tell how many requests it has; it was not restarted")
        if left:
            self._put_back(box, before, recipe, "its requests did not end", tell)
            raise _StoppedError(
                f"{box.name} still had {left} requests after {self.fleet.drain_seconds:g} s; it was not restarted"
            )

    def _restarted_and_proved(
        self, box: FleetBox, here: DeploymentDir, before: Recipe, recipe: Recipe, tell: Tell
    ) -> str | None:
        """Why it does not stand with the new recipe; None if it does."""
        tell("restarting")
        known = self.directory.state().box(box.name)
        was = running(known)
        try:
            restart(here, recipe)
        except UprightError as error:
            now = running(known)
            refused = was is not None and now is not None and now.supervisor == was.supervisor
            if refused and here.read(Recipe) == before:
                self._put_back(box, before, recipe, error.message, tell)
                raise _StoppedError(f"{box.name} was not restarted and has its old recipe: {error.message}") from None
            return error.message
        try:
            self._phase(box, "proving", before, recipe)
            tell(f"proving to {self.fleet.prove_to}")
            evidence = climb(here, to=self.fleet.prove_to, tell=lambda message: None)
        except UprightError as error:
            return error.message
        if evidence.passed:
            return None
        failed = next((observation for observation in evidence.observations if observation.verdict == "failed"), None)
        return f"{failed.rung} {failed.check}: {failed.reason}" if failed else "nothing was proved"

    def _step_back(self, box: FleetBox, here: DeploymentDir, before: Recipe, reason: str, tell: Tell) -> None:
        """To the recipe it had, and back on the list; then the roll is over."""
        tell(f"stepping back: {reason}")
        step = self._step(box)
        after = step.after if step is not None else before.reference
        self._phase(box, "stepping back", before, after, reason)
        try:
            restart(here, before)
        except UprightError as error:
            raise _StoppedError(
                f"{box.name} failed with the new recipe ({reason}) and with the old one ({error.message}); "
                "it gets no requests"
            ) from None
        self._put_back(box, before, after, reason, tell)
        raise _StoppedError(f"{box.name} failed with the new recipe and has its old one again: {reason}")

    def _put_back(self, box: FleetBox, before: Recipe, after: Recipe | str, reason: str, tell: Tell) -> None:
        """On the list again, with the recipe it had."""
        self._admit(box, tell)
        self._phase(box, "stepped back", before, after, reason)

    def _admit(self, box: FleetBox, tell: Tell) -> None:
        tell("admitting")
        try:
            admit(self.fleet, self.directory, self.keys, box.name, admitted=True)
        except UprightError as error:
            raise _StoppedError(f"{box.name} was not admitted: {error.message}") from None

    def _step(self, box: FleetBox) -> RollStep | None:
        return next((step for step in self.roll.steps if step.box == box.name), None)

    def _phase(
        self, box: FleetBox, phase: Phase, before: Recipe, after: Recipe | str, reason: str | None = None
    ) -> None:
        wanted = after if isinstance(after, str) else after.reference
        step = RollStep(box=box.name, phase=phase, before=before.reference, after=wanted, reason=reason, at=utc_now())
        steps = {past_step.box: past_step for past_step in self.roll.steps} | {box.name: step}
        self._write(self.roll.model_copy(update={"steps": tuple(steps.values())}))

    def _write(self, roll: Roll) -> Roll:
        self.roll = roll
        self.directory.write(self.directory.state().model_copy(update={"roll": roll}))
        return roll
