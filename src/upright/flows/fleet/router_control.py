"""The router in front of the boxes: its recipe, its start, its worker list, its proof."""

from __future__ import annotations

import os

from upright.base.errors import LaunchError, UprightError
from upright.base.progress import Tell
from upright.facts import store
from upright.facts.records.deployment import RUNNING, Deployment
from upright.facts.records.evidence import Evidence
from upright.facts.records.fleet import Fleet
from upright.facts.records.model import Model
from upright.facts.records.recipe import Recipe
from upright.facts.store import DeploymentDir, write_atomically
from upright.flows.fleet.boxes import (
    admitted_urls,
    deployment_in_place,
    deployment_of,
    running_deployment,
    started_deployment,
)
from upright.flows.fleet.directory import FleetDir, FleetKeys
from upright.flows.fleet.router_api import RouterFiles, wait_until
from upright.planning.rendering.router import router_recipe
from upright.proof.ladder import prove
from upright.proof.ladder.climbing import sentence_listener
from upright.proof.ladder.prompts import prompt_set_for
from upright.proof.ladder.servers import server_target
from upright.serving.endpoint.client import Endpoint
from upright.serving.launch import launch, restart, status

ROUTER_RUNGS = ("smoke", "clients")
"""Rungs that are climbed through the router."""
_ADMIT_SECONDS = 60.0


def admit(fleet: Fleet, directory: FleetDir, keys: FleetKeys, name: str, *, admitted: bool, wait: bool = True) -> None:
    """On the list, or off it; returns once the router says the same, if that is waited for."""
    with directory.writing:
        state = directory.state()
        url = admitted_urls(fleet, state.with_box(state.box(name).model_copy(update={"admitted": True}))).get(name)
        state = state.with_box(state.box(name).model_copy(update={"admitted": admitted}))
        directory.write(state)
        RouterFiles(fleet, directory).list_boxes(admitted_urls(fleet, state))
    router = started_deployment(state.router)
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


def start_router(fleet: Fleet, directory: FleetDir, keys: FleetKeys, tell: Tell, *, recipe: Recipe) -> Deployment:
    """By that recipe, whether or not one runs; it has answered, and takes every listed box for healthy."""
    files = RouterFiles(fleet, directory)
    workers = admitted_urls(fleet, directory.state())
    files.write(keys)
    files.list_boxes(workers)
    tell(f"router: starting smg {recipe.engine_version} for {len(workers)} boxes")
    router = _launched(fleet, directory, recipe, keys)
    wait_for_boxes(router, keys, workers)
    tell(f"router: {router.base_url}/v1 in front of {', '.join(workers)}")
    return router


def wait_for_boxes(router: Deployment, keys: FleetKeys, workers: dict[str, str]) -> None:
    wait_until(
        router.base_url, keys, lambda listing: all(url in listing and listing[url].healthy for url in workers.values()),
        seconds=_ADMIT_SECONDS, what="all boxes are healthy",
    )  # fmt: skip


def wanted_router_recipe(fleet: Fleet, directory: FleetDir) -> Recipe:
    """What the router of fleet.yaml would be started by."""
    files = RouterFiles(fleet, directory)
    engine = first_running(directory).read(Recipe)
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


def running_router(directory: FleetDir) -> DeploymentDir | None:
    """The router's deployment, if it runs."""
    known = started_deployment(directory.state().router)
    return known if known is not None and status(known).state in RUNNING else None


def leave_router_machine(before: Fleet, after: Fleet, directory: FleetDir, tell: Tell) -> None:
    """Keys do not stay on a machine that the router has left."""
    if before.router.machine != after.router.machine:
        try:
            RouterFiles(before, directory).remove()
        except UprightError as error:
            tell(f"router: its keys may still be on {before.router.machine}: {error.message}")


def prove_router(directory: FleetDir, router: Deployment, keys: FleetKeys, tell: Tell) -> Evidence:
    """The client rung through the router, with the clients' key."""
    box = first_running(directory)
    with Endpoint(router.base_url, router.served_name, key=keys.client) as endpoint:
        target = server_target(endpoint, router.context_tokens)
        listener = sentence_listener(lambda message: tell(f"router: {message}"))
        evidence = prove(
            target, endpoint, prompt_set_for(box.read(Model)), rungs=ROUTER_RUNGS, on_observation=listener.observation
        )
    store.find(directory.state().router).write(evidence)
    return evidence


def prove_first_box(directory: FleetDir) -> Evidence:
    """The client rung at a box: what fails there too is the engine's, not the router's."""
    box = first_running(directory)
    deployment = box.read(Deployment)
    with Endpoint(deployment.base_url, deployment.served_name, key=box.key()) as endpoint:
        return prove(deployment, endpoint, prompt_set_for(box.read(Model)), rungs=("clients",))


def first_running(directory: FleetDir) -> DeploymentDir:
    """A box that runs."""
    box_directories = (deployment_of(known) for known in directory.state().boxes if running_deployment(known))
    first = next((box_directory for box_directory in box_directories if box_directory is not None), None)
    if first is None:
        raise LaunchError(f"no box of {directory.name} runs any more", hint=f"upright fleet status {directory.name}")
    return first


def _launched(fleet: Fleet, directory: FleetDir, recipe: Recipe, keys: FleetKeys) -> Deployment:
    machine, port = fleet.router.machine, fleet.router.local_port
    known = deployment_in_place(fleet.router, directory.state().router)
    if known is not None:
        write_atomically(known.key_file, f"{keys.client}\n".encode(), mode=0o600)
        return restart(known, recipe)
    made = store.create(f"{fleet.name}-router")
    write_atomically(made.key_file, f"{keys.client}\n".encode(), mode=0o600)
    directory.change(lambda state: state.model_copy(update={"router": made.name}))  # before it starts: none is unknown
    try:
        return launch(recipe, made, machine=machine, port=port)
    except LaunchError as error:
        raise LaunchError(f"the router did not come up: {error.message}", hint=f"upright logs {made.name}") from None
