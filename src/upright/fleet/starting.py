"""Fleet -> boxes that answer, the router in front of them, and the proof that clients get through; and their end."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from upright import store
from upright.endpoint.client import Endpoint
from upright.errors import LaunchError, UprightError
from upright.fleet.boxes import deployment_of, in_place, listed, refuse_moved, running, start_box, started
from upright.fleet.directory import FleetDir, FleetKeys
from upright.fleet.gateway import RouterFiles, wait_until
from upright.fleet.preparing import BoxPlan, at_once, plan_fleet, tell_of
from upright.launching import launch, restart, status, stop
from upright.progress import Tell
from upright.proving import prove
from upright.proving.climbing import telling
from upright.proving.prompts import prompt_set_for
from upright.proving.servers import server
from upright.records.deployment import RUNNING, Deployment
from upright.records.evidence import Evidence, Observation
from upright.records.fleet import BoxState, Fleet, FleetBox
from upright.records.model import Model
from upright.records.recipe import Recipe
from upright.rendering.router import router_recipe
from upright.store import DeploymentDir, write_atomically

THROUGH = ("smoke", "clients")
"""Rungs that are climbed through the router."""
_ADMIT_SECONDS = 60.0


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
        engines_own = {(each.rung, each.check) for each in _failed(self.direct) if each.rung == "clients"}
        return tuple(each for each in _failed(self.evidence) if (each.rung, each.check) not in engines_own)

    @property
    def stands(self) -> bool:
        return not self.problems and self.evidence is not None and not self.failed


@dataclass(frozen=True)
class Ended:
    """What came of `down`."""

    deployments: tuple[Deployment, ...]
    """Those of which nothing runs any more."""
    problems: dict[str, UprightError]
    """Deployments that may still run, or have left keys on their machine, and why."""


def up(fleet: Fleet, file: Path, *, tell: Tell) -> FleetStart:
    """Start what does not run yet. What runs is left alone, with the recipe it has."""
    directory = FleetDir(fleet.name)
    with directory.at_work():
        state = directory.state()
        refuse_moved(fleet, file, state)
        there = {box.name for box in fleet.boxes if running(state.box(box.name))}
        missing = tuple(box for box in fleet.boxes if box.name not in there)
        for name in sorted(there):
            tell(f"{name}: runs already")
        plans = plan_fleet(fleet, file.parent, tell=tell, boxes=missing) if missing else []
        if not all(box_plan.ready for box_plan in plans):
            return FleetStart(tuple(plans), {})
        keys = directory.keys(fleet.client_key)
        _leave_old_router(fleet, directory, tell)
        directory.create(fleet, file)
        for name in sorted(there):
            _admit_again(directory, name)
        problems = _start_boxes(fleet, directory, plans, keys, tell)
        if not listed(fleet, directory.state()):
            return FleetStart(tuple(plans), problems)
        router = _start_router(fleet, directory, keys, tell)
        evidence = prove_through(fleet, directory, router, keys, tell)
        direct = None if evidence.passed else _prove_direct(fleet, directory)
        return FleetStart(tuple(plans), problems, router, evidence, direct)


def down(fleet: Fleet, *, tell: Tell) -> Ended:
    """The router first, so that nobody is sent to a box that is going; then the boxes, all at once."""
    directory = FleetDir(fleet.name)
    with directory.at_work():
        state = directory.state()
        outcomes = {}
        router = started(state.router)
        if router is not None:
            tell("router: stopping")
            outcomes[router.name] = _ended(router, and_then=RouterFiles(fleet, directory).remove)
        box_directories = [here for box in state.boxes if (here := deployment_of(box)) is not None]
        with ThreadPoolExecutor(max(1, len(box_directories))) as pool:
            for here, outcome in zip(box_directories, pool.map(_ended, box_directories), strict=True):
                tell(f"{here.name}: {outcome.state if isinstance(outcome, Deployment) else 'not ended'}")
                outcomes[here.name] = outcome
        boxes = tuple(box.model_copy(update={"admitted": False}) for box in state.boxes)
        directory.write(state.model_copy(update={"boxes": boxes}))
        return Ended(
            tuple(ending for ending in outcomes.values() if isinstance(ending, Deployment)),
            {name: ending for name, ending in outcomes.items() if isinstance(ending, UprightError)},
        )


def admit(fleet: Fleet, directory: FleetDir, keys: FleetKeys, name: str, *, admitted: bool, wait: bool = True) -> None:
    """On the list, or off it; returns once the router says the same, if that is waited for."""
    state = directory.state()
    url = listed(fleet, state.with_box(state.box(name).model_copy(update={"admitted": True}))).get(name)
    state = state.with_box(state.box(name).model_copy(update={"admitted": admitted}))
    directory.write(state)
    RouterFiles(fleet, directory).list_boxes(listed(fleet, state))
    router = started(state.router)
    if not wait or router is None or url is None or status(router).state not in RUNNING:
        return
    base_url = router.read(Deployment).base_url
    if admitted:
        wait_until(
            base_url, keys, lambda listing: url in listing and listing[url].healthy, seconds=_ADMIT_SECONDS,
            what=f"{name} is healthy",
        )  # fmt: skip
    else:
        wait_until(
            base_url, keys, lambda listing: url not in listing or listing[url].status == "draining",
            seconds=_ADMIT_SECONDS, what=f"{name} gets nothing new",
        )  # fmt: skip


def prove_through(fleet: Fleet, directory: FleetDir, router: Deployment, keys: FleetKeys, tell: Tell) -> Evidence:
    """The client rung through the router, with the clients' key."""
    box = _first(fleet, directory)
    with Endpoint(router.base_url, router.served_name, key=keys.client) as endpoint:
        target = server(endpoint, router.context_tokens)
        listener = telling(lambda message: tell(f"router: {message}"))
        evidence = prove(
            target, endpoint, prompt_set_for(box.read(Model)), rungs=THROUGH, on_observation=listener.observation
        )
    store.find(directory.state().router).write(evidence)
    return evidence


def _prove_direct(fleet: Fleet, directory: FleetDir) -> Evidence:
    """The client rung at a box: what fails there too is the engine's, not the router's."""
    box = _first(fleet, directory)
    deployment = box.read(Deployment)
    with Endpoint(deployment.base_url, deployment.served_name, key=box.key()) as endpoint:
        return prove(deployment, endpoint, prompt_set_for(box.read(Model)), rungs=("clients",))


def _leave_old_router(fleet: Fleet, directory: FleetDir, tell: Tell) -> None:
    """Keys do not stay on a machine that the router has left."""
    before = directory.fleet() if directory.known else fleet
    if before.router.machine != fleet.router.machine:
        try:
            RouterFiles(before, directory).remove()
        except UprightError as error:
            tell(f"router: its keys may still be on {before.router.machine}: {error.message}")


def _first(fleet: Fleet, directory: FleetDir) -> DeploymentDir:
    """A box that runs."""
    state = directory.state()
    box_directories = (deployment_of(known) for box in fleet.boxes if running(known := state.box(box.name)))
    first = next((box_directory for box_directory in box_directories if box_directory is not None), None)
    if first is None:
        raise LaunchError(f"no box of {fleet.name} runs any more", hint=f"upright fleet status {fleet.name}")
    return first


def _ended(here: DeploymentDir, and_then: Callable[[], None] = lambda: None) -> Deployment | UprightError:
    """What it is now, or why it may still run: a machine that is away holds nobody else up."""
    try:
        ran = here.read(Deployment).state in RUNNING
        now = stop(here)
        if ran and now.state == "failed" and now.machine is not None:  # its supervisor did not get there either
            return LaunchError(now.reason or f"{now.machine} did not say whether it ended")
        and_then()
    except UprightError as error:
        return error
    return now


def _failed(evidence: Evidence | None) -> tuple[Observation, ...]:
    return (
        tuple(observation for observation in evidence.observations if observation.verdict == "failed")
        if evidence
        else ()
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
    for box, outcome in zip(boxes, at_once(begun, boxes), strict=True):
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


def _start_router(fleet: Fleet, directory: FleetDir, keys: FleetKeys, tell: Tell) -> Deployment:
    state, files = directory.state(), RouterFiles(fleet, directory)
    workers = listed(fleet, state)
    files.write(keys)
    files.list_boxes(workers)
    known = started(state.router)
    if known is not None and status(known).state in RUNNING and known.key() == keys.client:
        router = known.read(Deployment)
        tell("router: runs already")
    else:
        recipe = _recipe(fleet, directory, files)
        tell(f"router: starting smg {recipe.engine_version} for {len(workers)} boxes")
        router = _launched(fleet, directory, recipe, keys)
    wait_until(
        router.base_url, keys, lambda listing: all(url in listing and listing[url].healthy for url in workers.values()),
        seconds=_ADMIT_SECONDS, what="all boxes are healthy",
    )  # fmt: skip
    tell(f"router: {router.base_url}/v1 in front of {', '.join(workers)}")
    return router


def _recipe(fleet: Fleet, directory: FleetDir, files: RouterFiles) -> Recipe:
    engine = _first(fleet, directory).read(Recipe)
    program = fleet.router.program or (None if fleet.router.machine else os.environ.get("UPRIGHT_SMG")) or "smg"
    python, version = ("python3", None) if fleet.router.runtime != "process" else files.python(program)
    return router_recipe(
        fleet,
        folder=files.folder,
        program=python,
        version=version,
        served_name=engine.served_name,
        context_tokens=engine.context_tokens,
    )


def _launched(fleet: Fleet, directory: FleetDir, recipe: Recipe, keys: FleetKeys) -> Deployment:
    machine, port = fleet.router.machine, fleet.router.local_port
    known = in_place(fleet.router, directory.state().router)
    if known is not None:
        write_atomically(known.key_file, f"{keys.client}\n".encode(), mode=0o600)
        return restart(known, recipe)
    made = store.create(f"{fleet.name}-router")
    write_atomically(made.key_file, f"{keys.client}\n".encode(), mode=0o600)
    try:
        router = launch(recipe, made, machine=machine, port=port)
    except LaunchError as error:
        raise LaunchError(f"the router did not come up: {error.message}", hint=f"upright logs {made.name}") from None
    finally:
        if made.has(Deployment):
            directory.write(directory.state().model_copy(update={"router": made.name}))
    return router
