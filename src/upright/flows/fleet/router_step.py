"""The router's step of a rolling update: other settings, proved with a client's key, or put back."""

from __future__ import annotations

from collections.abc import Callable

from upright.base.errors import LaunchError, UprightError
from upright.base.progress import Tell, utc_now
from upright.facts.records.evidence import Evidence, Observation
from upright.facts.records.fleet import Fleet, Phase, RollStep
from upright.facts.records.recipe import Recipe
from upright.flows.fleet.box_steps import Noted, StepStoppedError
from upright.flows.fleet.boxes import deployment_in_place, started_deployment
from upright.flows.fleet.directory import FleetDir
from upright.flows.fleet.fleet_state import with_router
from upright.flows.fleet.roll_plan import ROUTER_STEP, FleetStep
from upright.flows.fleet.router_control import leave_router_machine, prove_first_box, prove_router, start_router
from upright.flows.fleet.stopping import stop_deployment
from upright.proof.ladder.recipe_changes import recipe_of


class RouterStep:
    """Streams that run through the router end with it, within its own grace; the boxes are not touched."""

    def __init__(self, fleet: Fleet, directory: FleetDir, tell: Tell, noted: Noted) -> None:
        self.fleet, self.directory, self.tell, self.noted = fleet, directory, tell, noted

    def take(self, step: FleetStep, left: RollStep | None) -> None:
        wanted = step.recipe
        assert wanted is not None
        present, client = self.directory.fleet(), self.directory.keys().client
        old = started_deployment(self.directory.state().router)
        before = old.read(Recipe) if old is not None else None
        if old is not None and left is not None and left.kind == "router" and left.before is not None:
            before = recipe_of(old, left.before)
        self._phase("restarting", before, wanted)
        if old is not None and deployment_in_place(self.fleet.router, old.name) is None:
            outcome = stop_deployment(old, lambda: leave_router_machine(present, self.fleet, self.directory, self.tell))
            if isinstance(outcome, UprightError):
                raise StepStoppedError(f"the router may still run: {outcome.message}")
        try:
            self._stands(self.fleet, wanted, lambda: self._phase("proving", before, wanted))
        except UprightError as error:
            self._step_back(present, client, before, wanted, error.message)
        self.directory.applied(lambda present: with_router(present, self.fleet))
        self._phase("done", before, wanted)

    def _stands(self, fleet: Fleet, recipe: Recipe, proving: Callable[[], None] = lambda: None) -> None:
        """LaunchError unless clients get through it."""
        keys = self.directory.keys(fleet.client_key)
        router = start_router(fleet, self.directory, keys, self.tell, recipe=recipe)
        proving()
        evidence = prove_router(self.directory, router, keys, self.tell)
        failed = router_only_failures(evidence, None if evidence.passed else prove_first_box(self.directory))
        if failed:
            raise LaunchError(f"{failed[0].rung} {failed[0].check} through it: {failed[0].reason}")

    def _step_back(self, present: Fleet, client: str, before: Recipe | None, after: Recipe, reason: str) -> None:
        self.tell(f"router: stepping back: {reason}")
        self._phase("stepping back", before, after, reason)
        if before is None:
            raise StepStoppedError(f"the router did not come up: {reason}")
        self.directory.set_client_key(client)
        try:
            start_router(present, self.directory, self.directory.keys(), self.tell, recipe=before)
        except UprightError as error:
            raise StepStoppedError(
                f"the router failed with its new settings ({reason}) and with its old ones ({error.message})"
            ) from None
        self._phase("stepped back", before, after, reason)
        raise StepStoppedError(f"the router failed with its new settings and has its old ones again: {reason}")

    def _phase(self, phase: Phase, before: Recipe | None, after: Recipe, reason: str | None = None) -> None:
        reference = before.reference if before is not None else None
        step = RollStep(
            box=ROUTER_STEP, kind="router", phase=phase, before=reference, after=after.reference, reason=reason,
            at=utc_now(),
        )  # fmt: skip
        self.noted(step)


def router_only_failures(evidence: Evidence | None, direct: Evidence | None) -> tuple[Observation, ...]:
    """What fails through the router, and not at the box itself."""
    engines_own = {(seen.rung, seen.check) for seen in failures(direct) if seen.rung == "clients"}
    return tuple(seen for seen in failures(evidence) if (seen.rung, seen.check) not in engines_own)


def failures(evidence: Evidence | None) -> tuple[Observation, ...]:
    return (
        tuple(observation for observation in evidence.observations if observation.verdict == "failed")
        if evidence
        else ()
    )
