"""Starts and stops a fleet: boxes, then the router, then the proof that clients get through."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from upright.base.errors import UprightError
from upright.base.progress import Tell
from upright.facts.records.deployment import Deployment
from upright.facts.records.evidence import Evidence, Observation
from upright.facts.records.fleet import BoxState, Fleet, FleetBox
from upright.flows.fleet import sentinel
from upright.flows.fleet.box_plans import BoxPlan, for_all_boxes, plan_fleet, refuse_unreachable, tell_of
from upright.flows.fleet.boxes import (
    admitted_urls,
    deployment_in_place,
    deployment_of,
    running_deployment,
    start_box,
    started_deployment,
)
from upright.flows.fleet.directory import FleetDir, FleetKeys
from upright.flows.fleet.fleet_state import fleet_at_start
from upright.flows.fleet.router_api import RouterFiles
from upright.flows.fleet.router_control import (
    leave_router_machine,
    prove_first_box,
    prove_router,
    running_router,
    start_router,
    wait_for_boxes,
    wanted_router_recipe,
)
from upright.flows.fleet.router_step import router_only_failures
from upright.flows.fleet.stopping import stop_deployment


@dataclass(frozen=True)
class FleetStart:
    """What came of `up`. With plans that do not fit nothing was started."""

    plans: tuple[BoxPlan, ...]
    problems: dict[str, UprightError]
    """Boxes that did not come up, and why."""
    router: Deployment | None = None
    evidence: Evidence | None = None
    """What was seen through the router."""
    direct: Evidence | None = None
    """The same client rung at a box itself, asked where something failed."""

    @property
    def failed(self) -> tuple[Observation, ...]:
        """What fails through the router, and not at the box itself."""
        return router_only_failures(self.evidence, self.direct)

    @property
    def stands(self) -> bool:
        return not self.problems and self.evidence is not None and not self.failed


@dataclass(frozen=True)
class FleetStop:
    """What came of `down`."""

    deployments: tuple[Deployment, ...]
    """Those of which nothing runs any more."""
    problems: dict[str, UprightError]
    """Deployments that may still run, or have left keys on their machine, and why."""


def up(fleet: Fleet, file: Path, *, tell: Tell) -> FleetStart:
    """Start what does not run yet. What runs is left alone, as it is: what fleet.yaml changes of it is a roll's."""
    refuse_unreachable(fleet.boxes)
    directory = FleetDir(fleet.name)
    with directory.at_work():
        state = directory.state()
        there = {box.name for box in state.boxes if running_deployment(box)}
        missing = tuple(box for box in fleet.boxes if box.name not in there)
        for name in sorted(there):
            tell(f"{name}: runs already")
        plans = plan_fleet(fleet, file.parent, tell=tell, boxes=missing) if missing else []
        if not all(box_plan.ready for box_plan in plans):
            return FleetStart(tuple(plans), {})
        keys = directory.keys(fleet.client_key)
        before, stays = directory.fleet() if directory.known else None, _stays(fleet, directory, keys)
        if before is not None and not stays:
            leave_router_machine(before, fleet, directory, tell)
        present = fleet_at_start(before, fleet, running=there, router_stays=stays)
        directory.create(present, file)
        for name in sorted(there):
            _admit_again(directory, name)
        problems = _start_boxes(fleet, directory, plans, keys, tell)
        if not admitted_urls(present, directory.state()):
            return FleetStart(tuple(plans), problems)
        router = _router(present, directory, keys, tell, stays=stays)
        sentinel.start_watchers(directory)
        evidence = prove_router(directory, router, keys, tell)
        direct = None if evidence.passed else prove_first_box(directory)
        if present != fleet:
            tell(f"what ran is as it was: upright fleet plan {file} shows what a roll would change")
        return FleetStart(tuple(plans), problems, router, evidence, direct)


def _stays(fleet: Fleet, directory: FleetDir, keys: FleetKeys) -> bool:
    """A router that runs is left alone, unless clients have another key by now."""
    known = running_router(directory)
    return known is not None and (known.key() == keys.client or deployment_in_place(fleet.router, known.name) is None)


def _router(fleet: Fleet, directory: FleetDir, keys: FleetKeys, tell: Tell, *, stays: bool) -> Deployment:
    known = running_router(directory) if stays else None
    if known is None:
        return start_router(fleet, directory, keys, tell, recipe=wanted_router_recipe(fleet, directory))
    tell("router: runs already")
    router, workers = known.read(Deployment), admitted_urls(fleet, directory.state())
    RouterFiles(fleet, directory).list_boxes(workers)
    wait_for_boxes(router, keys, workers)
    return router


def down(fleet: Fleet, *, tell: Tell) -> FleetStop:
    """The router first, so that nobody is sent to a box that is going; then the boxes, all at once."""
    directory = FleetDir(fleet.name)
    with directory.at_work():
        sentinel.stop_watchers(directory)
        state = directory.state()
        outcomes = {}
        router = started_deployment(state.router)
        if router is not None:
            tell("router: stopping")
            outcomes[router.name] = stop_deployment(router, and_then=RouterFiles(fleet, directory).remove)
        box_directories = [here for box in state.boxes if (here := deployment_of(box)) is not None]
        with ThreadPoolExecutor(max(1, len(box_directories))) as pool:
            for here, outcome in zip(box_directories, pool.map(stop_deployment, box_directories), strict=True):
                tell(f"{here.name}: {outcome.state if isinstance(outcome, Deployment) else 'not ended'}")
                outcomes[here.name] = outcome
        boxes = tuple(box.model_copy(update={"admitted": False}) for box in state.boxes)
        directory.write(state.model_copy(update={"boxes": boxes}))
        return FleetStop(
            tuple(ending for ending in outcomes.values() if isinstance(ending, Deployment)),
            {name: ending for name, ending in outcomes.items() if isinstance(ending, UprightError)},
        )


def _admit_again(directory: FleetDir, name: str) -> None:
    """A box that runs and that no roll has taken off the list gets requests: `up` may have been killed before."""
    state = directory.state()
    steps = state.roll.steps if state.roll is not None and state.roll.outcome == "going on" else ()
    if not any(step.box == name and step.phase != "done" for step in steps):
        directory.write(state.with_box(state.box(name).model_copy(update={"admitted": True})))


def _start_boxes(
    fleet: Fleet, directory: FleetDir, plans: list[BoxPlan], keys: FleetKeys, tell: Tell
) -> dict[str, UprightError]:
    state, problems, writing = directory.state(), {}, threading.Lock()

    def note(box: BoxState) -> None:
        """On disk before its engine starts: an `up` that is killed leaves no engine that nobody knows."""
        with writing:
            directory.write(directory.state().with_box(box))

    prepared = {box_plan.box.name: box_plan.prepared for box_plan in plans}

    def begun(box: FleetBox) -> BoxState | UprightError:
        wanted = prepared[box.name]
        assert wanted is not None
        try:
            return start_box(fleet, box, wanted, state.box(box.name), keys, tell_of(box, tell), note)
        except UprightError as error:
            return error

    boxes = tuple(box_plan.box for box_plan in plans)
    for box, outcome in zip(boxes, for_all_boxes(begun, boxes), strict=True):
        if isinstance(outcome, UprightError):
            tell(f"{box.name}: {outcome.message}" + (f" ({outcome.hint})" if outcome.hint else ""))
            problems[box.name] = outcome
            note(directory.state().box(box.name).model_copy(update={"admitted": False}))
        else:
            note(outcome.model_copy(update={"admitted": True}))
    state = directory.state()
    order = {box.name: number for number, box in enumerate(fleet.boxes)}
    known = sorted(state.boxes, key=lambda box_state: order.get(box_state.name, len(order)))
    directory.write(state.model_copy(update={"boxes": tuple(known)}))
    return problems
