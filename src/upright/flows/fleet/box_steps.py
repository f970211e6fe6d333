"""One box of a rolling update: drained, changed, proved and admitted, or put back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from upright.base.errors import UprightError
from upright.base.progress import Tell, utc_now
from upright.facts.records.fleet import BoxState, Fleet, Phase, RollStep, StepKind
from upright.facts.records.recipe import Recipe
from upright.facts.store import DeploymentDir
from upright.flows.fleet.boxes import (
    deployment_in_place,
    deployment_of,
    measure_anew,
    running_deployment,
    start_box,
    started_deployment,
    wait_until_idle,
)
from upright.flows.fleet.directory import FleetDir
from upright.flows.fleet.fleet_state import with_box, without_box
from upright.flows.fleet.roll_plan import FleetStep
from upright.flows.fleet.router_control import admit
from upright.flows.fleet.stopping import stop_deployment
from upright.proof.ladder.climbing import prove_deployment
from upright.proof.ladder.recipe_changes import recipe_of
from upright.proof.ladder.rung import ProofOptions
from upright.serving.launch import restart

Noted = Callable[[RollStep], None]


class StepStoppedError(Exception):
    """This step could not be done, and the roll ends with it."""


@dataclass(frozen=True)
class _Origin:
    """What a box was before the roll came to it, and is again if it fails; nothing for one that joins."""

    kind: StepKind
    here: DeploymentDir | None
    recipe: Recipe | None
    after: Recipe | None

    @property
    def left(self) -> str | None:
        return self.here.name if self.here is not None and self.kind == "move" else None


class BoxSteps:
    """Steps on boxes. Those of `together` are out at the same time."""

    def __init__(
        self, fleet: Fleet, directory: FleetDir, tell: Tell, noted: Noted, together: frozenset[str] = frozenset()
    ) -> None:
        self.fleet, self.directory, self.noted, self.together = fleet, directory, noted, together
        self.present = directory.fleet()
        self.keys = directory.keys()
        self._tell = tell

    def take(self, step: FleetStep, left: RollStep | None) -> None:
        """`left` is how far an interrupted roll came with it."""
        self.name = step.name
        self.tell: Tell = lambda message: self._tell(f"{step.name}: {message}")
        known = self.directory.state().box(step.name)
        here = deployment_of(known)
        origin = self._origin(step, here, left)
        if here is not None:
            self._drain(here, origin, left)
        if left is not None and left.phase == "stepping back" and step.kind != "remove":
            self._step_back(origin, left.reason or "interrupted")
        if step.kind == "remove":
            self._leave(here, origin)
            return
        if in_place_of(step, known) is None:
            reason = self._begun_and_proved(step, here, known, origin)
        else:
            reason = self._restarted_and_proved(step, known, origin)
        if reason is not None:
            self._step_back(origin, reason)
        self.directory.applied(lambda present: with_box(present, self.fleet, self.name))
        self._phase("admitting", origin)
        self._admit()
        self._phase("done", origin)
        self.tell("done")

    def _origin(self, step: FleetStep, here: DeploymentDir | None, left: RollStep | None) -> _Origin:
        """By what an interrupted roll wrote down, if it came here: what it began is not what the box was."""
        present = here.read(Recipe) if here is not None else None
        if left is None or left.kind in ("remove", "router") or step.kind == "remove":
            return _Origin(step.kind, here, present, step.recipe)
        if left.before is None:
            return _Origin("add", None, None, step.recipe)
        before = started_deployment(left.left) or here
        assert before is not None, "one that did not join has a deployment"
        return _Origin(left.kind, before, recipe_of(before, left.before), step.recipe)

    def _drain(self, here: DeploymentDir, origin: _Origin, begun: RollStep | None) -> None:
        """Also before an interrupted step back goes on: it may have been on the list again when it was killed."""
        state = self.directory.state()
        others = [other for other in state.boxes if other.name not in {self.name, *self.together}]
        known = state.box(self.name)
        answers = (
            known.admitted and running_deployment(known) is not None
        )  # one that is down leaves nobody without an answer
        if answers and not any(other.admitted and running_deployment(other) for other in others):
            raise StepStoppedError(f"{self.name} is the only box that answers: a roll would leave clients without one")
        if begun is not None and begun.phase == "stepping back" and origin.after is not None:
            self._phase("stepping back", origin, begun.reason)
        else:
            self._phase("draining", origin)
        self.tell("draining")
        try:
            admit(self.present, self.directory, self.keys, self.name, admitted=False)
        except UprightError as error:
            admit(self.present, self.directory, self.keys, self.name, admitted=True, wait=False)
            raise StepStoppedError(f"{self.name} was not drained: {error.message}") from None
        if running_deployment(known) is None:
            return
        left = wait_until_idle(here, seconds=self.fleet.drain_seconds, tell=self.tell)
        if left == 0:
            return
        fate = "stopped" if origin.after is None else "restarted"
        reason = "it does not tell how many requests it has" if left is None else "its requests did not end"
        self._put_back(origin, reason)
        if left is None:
            raise StepStoppedError(f"{self.name} does not tell how many requests it has; it was not {fate}")
        seconds = f"{self.fleet.drain_seconds:g} s"
        raise StepStoppedError(f"{self.name} still had {left} requests after {seconds}; it was not {fate}")

    def _leave(self, here: DeploymentDir | None, origin: _Origin) -> None:
        if here is not None:
            self._phase("stopping", origin)
            self._stop(here)
        self.directory.applied(lambda present: without_box(present, self.name))
        self.directory.change(lambda state: state.without(self.name))
        self._phase("done", origin)
        self.tell("left")

    def _begun_and_proved(
        self, step: FleetStep, here: DeploymentDir | None, known: BoxState, origin: _Origin
    ) -> str | None:
        """A new deployment where fleet.yaml has it; one elsewhere is stopped first. Why it does not stand."""
        assert step.box is not None
        assert step.prepared is not None
        if here is not None:
            self._phase("stopping", origin)
            self._stop(here)
        self._phase("starting", origin)
        self.tell("starting")
        try:
            start_box(
                self.fleet, step.box, step.prepared, known, self.keys, self.tell,
                lambda made: void(self.directory.change(lambda state: state.with_box(made))),
            )  # fmt: skip
        except UprightError as error:
            return error.message
        return self._proved(origin)

    def _restarted_and_proved(self, step: FleetStep, known: BoxState, origin: _Origin) -> str | None:
        """The same deployment with the wanted recipe. Why it does not stand with it; None if it does."""
        assert step.recipe is not None
        assert step.prepared is not None
        here = deployment_of(known)
        assert here is not None
        self._phase("restarting", origin)
        self.tell("restarting")
        was = running_deployment(known)
        try:
            restart(here, step.recipe)
        except UprightError as error:
            now = running_deployment(known)
            refused = was is not None and now is not None and now.supervisor == was.supervisor
            if refused and origin.here is not None and here.read(Recipe) == origin.recipe:
                self._put_back(origin, error.message)
                raise StepStoppedError(
                    f"{self.name} was not restarted and has its old recipe: {error.message}"
                ) from None
            return error.message
        reason = self._proved(origin)
        if reason is None:
            for record in (step.prepared.box, step.prepared.model, step.prepared.plan):  # what its recipe was made from
                here.write(record)
            measure_anew(here, self.tell)
        return reason

    def _proved(self, origin: _Origin) -> str | None:
        """Why it does not stand; None if it does."""
        here = deployment_of(self.directory.state().box(self.name))
        assert here is not None
        try:
            self._phase("proving", origin)
            self.tell(f"proving to {self.fleet.prove_to}")
            evidence = prove_deployment(here, ProofOptions(self.fleet.prove_to), lambda message: None)
        except UprightError as error:
            return error.message
        if evidence.passed:
            return None
        failed = next((observation for observation in evidence.observations if observation.verdict == "failed"), None)
        return f"{failed.rung} {failed.check}: {failed.reason}" if failed else "nothing was proved"

    def _step_back(self, origin: _Origin, reason: str) -> None:
        """To what it was, and back on the list; then the roll is over."""
        self.tell(f"stepping back: {reason}")
        self._phase("stepping back", origin, reason)
        known = self.directory.state().box(self.name)
        here = deployment_of(known)
        if here is not None and (origin.here is None or origin.here.name != here.name):
            self._stop(here)
        if origin.here is None or origin.recipe is None:
            self.directory.change(lambda state: state.without(self.name))
            self._phase("stepped back", origin, reason)
            raise StepStoppedError(f"{self.name} did not join: {reason}")
        name = origin.here.name
        self.directory.change(
            lambda state: state.with_box(state.box(self.name).model_copy(update={"deployment": name}))
        )
        change = "at its new place" if origin.kind == "move" else "with the new recipe"
        try:
            restart(origin.here, origin.recipe)
        except UprightError as error:
            raise StepStoppedError(
                f"{self.name} failed {change} ({reason}) and with the old one ({error.message}); it gets no requests"
            ) from None
        self._put_back(origin, reason)
        raise StepStoppedError(f"{self.name} failed {change} and has its old one again: {reason}")

    def _put_back(self, origin: _Origin, reason: str) -> None:
        """On the list again, as it was."""
        self._admit()
        self._phase("stepped back", origin, reason)

    def _admit(self) -> None:
        self.tell("admitting")
        try:
            admit(self.present, self.directory, self.keys, self.name, admitted=True)
        except UprightError as error:
            raise StepStoppedError(f"{self.name} was not admitted: {error.message}") from None

    def _stop(self, here: DeploymentDir) -> None:
        outcome = stop_deployment(here)
        if isinstance(outcome, UprightError):
            raise StepStoppedError(f"{self.name} may still run: {outcome.message}")

    def _phase(self, phase: Phase, origin: _Origin, reason: str | None = None) -> None:
        before, after = (recipe.reference if recipe else None for recipe in (origin.recipe, origin.after))
        step = RollStep(
            box=self.name, kind=origin.kind, phase=phase, before=before, after=after, left=origin.left, reason=reason,
            at=utc_now(),
        )  # fmt: skip
        self.noted(step)


def in_place_of(step: FleetStep, known: BoxState) -> DeploymentDir | None:
    return deployment_in_place(step.box, known.deployment) if step.box is not None else None


def void(_: object) -> None:
    """Where nobody asks for an answer."""
