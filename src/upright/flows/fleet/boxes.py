"""A box of the fleet: its deployment, its URL for the router, and whether it runs."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable

from upright.base.errors import EndpointError
from upright.base.progress import Tell
from upright.facts import store
from upright.facts.records.deployment import RUNNING, Deployment
from upright.facts.records.fleet import BoxState, Fleet, FleetBox, FleetState, Router
from upright.facts.records.plan import Plan
from upright.facts.records.recipe import Recipe
from upright.facts.records.residuals import Residuals
from upright.facts.store import DeploymentDir, write_atomically
from upright.flows.fleet.box_plans import box_target
from upright.flows.fleet.directory import FleetKeys
from upright.flows.line import Prepared, measure_residuals, start
from upright.planning.rendering.container import ALL_ADDRESSES
from upright.planning.rendering.recipe import LOOPBACK
from upright.serving.endpoint.client import Endpoint
from upright.serving.endpoint.metrics import read_metrics
from upright.serving.launch import restart, status


def deployment_of(state: BoxState) -> DeploymentDir | None:
    return started_deployment(state.deployment)


def started_deployment(name: str | None) -> DeploymentDir | None:
    """The deployment of that name, if it was ever started and is still on the disk."""
    directory = DeploymentDir(store.home() / "deployments" / name) if name else None
    return directory if directory is not None and directory.has(Deployment) else None


def deployment_in_place(wanted: FleetBox | Router, name: str | None) -> DeploymentDir | None:
    """The deployment of that name, if it was started where fleet.yaml has it: it cannot be started again elsewhere."""
    directory = started_deployment(name)
    return directory if directory is not None and moved_reason(wanted, directory.read(Deployment)) is None else None


def running_deployment(state: BoxState) -> Deployment | None:
    """Its deployment as it is now, if it runs."""
    directory = deployment_of(state)
    deployment = status(directory) if directory is not None else None
    return deployment if deployment is not None and deployment.state in RUNNING else None


def start_box(
    fleet: Fleet,
    box: FleetBox,
    prepared: Prepared,
    known: BoxState,
    keys: FleetKeys,
    tell: Tell,
    note: Callable[[BoxState], None],
) -> BoxState:
    """Its engine answers when this returns; a deployment that was stopped is started again, by the present recipe.

    `note` is told of a new deployment before it is started."""
    directory = deployment_in_place(box, known.deployment)
    if directory is not None:
        assert prepared.recipe is not None
        try:
            restart(directory, prepared.recipe, on_change=lambda now: tell(now.state))
        finally:  # one that was refused keeps its recipe, and what that was made from
            if directory.read(Recipe) == prepared.recipe:
                for record in (prepared.box, prepared.model, prepared.plan):
                    directory.write(record)
        measure_anew(directory, tell)
        return known
    directory = _begun(known.deployment) or store.create(f"{fleet.name}-{box.name}")
    for record in (prepared.box, prepared.model, prepared.plan):
        directory.write(record)
    write_atomically(directory.key_file, f"{keys.worker}\n".encode(), mode=0o600)
    made = BoxState(name=box.name, deployment=directory.name)
    note(made)
    on = box_target(box)
    if on.machine is not None and on.port is None:
        on = type(on)(**{**vars(on), "port": _free_port()})
    start(prepared, directory, tell=tell, on=on)
    return made


def _begun(name: str | None) -> DeploymentDir | None:
    """A directory that was made for a box, by a command that was killed before its engine began."""
    path = store.home() / "deployments" / name if name else None
    return DeploymentDir(path) if path is not None and path.is_dir() and not started_deployment(name) else None


def measure_anew(directory: DeploymentDir, tell: Tell) -> None:
    """After a restart by another plan: what was measured against the one before says nothing of this one."""
    measure_residuals(directory, tell=tell)
    if directory.has(Residuals) and directory.read(Plan).reference not in directory.read(Residuals).made_from:
        directory.file(Residuals).unlink()


def url_of(fleet: Fleet, deployment: Deployment, recipe: Recipe) -> str:
    """Where the router finds its engine: its own address, the machine they share, or our end of the tunnel.

    By what the engine was started with: fleet.yaml may say otherwise by now."""
    if recipe.host not in (LOOPBACK, "localhost", ALL_ADDRESSES):
        return recipe.base_url
    if deployment.machine == fleet.router.machine:
        return f"http://{LOOPBACK}:{recipe.port}"
    return deployment.base_url


def admitted_urls(fleet: Fleet, state: FleetState) -> dict[str, str]:
    """Name -> URL of the admitted boxes, also of those that fleet.yaml no longer names: they leave by a roll."""
    urls = {}
    for known in state.boxes:
        directory = deployment_of(known)
        if known.admitted and directory is not None:
            urls[known.name] = url_of(fleet, directory.read(Deployment), directory.read(Recipe))
    return urls


def in_flight(directory: DeploymentDir) -> int | None:
    """Requests on the engine, by its own count; None if it does not say."""
    recipe, deployment = directory.read(Recipe), directory.read(Deployment)
    if recipe.metrics_path is None:
        return None
    try:
        with Endpoint(deployment.base_url, "", key=directory.key(), timeout_seconds=10) as endpoint:
            seen = read_metrics(endpoint.text(recipe.metrics_path))
    except EndpointError:
        return None
    return None if seen.running is None else round(seen.running + (seen.waiting or 0))


def wait_until_idle(directory: DeploymentDir, *, seconds: float, tell: Tell) -> int | None:
    """Requests that are left when the patience is over; an engine is idle when it says so twice. None if it does not
    say; one without metrics never will."""
    if directory.read(Recipe).metrics_path is None:
        return None
    deadline, idle, last_told = time.monotonic() + seconds, 0, -1
    while True:
        left = in_flight(directory)
        idle = idle + 1 if left == 0 else 0
        if idle == 2:
            return 0
        if left and left != last_told:
            tell(f"{left} requests to go")
            last_told = left
        if time.monotonic() > deadline:
            return left
        time.sleep(0.25)


def same_start(one: Recipe, other: Recipe) -> bool:
    """Whether both start the very same thing; where they come from may differ."""
    names = ("engine", "engine_version", "runtime", "program", "image", "environment", "arguments", "host", "port")
    return all(_bare(getattr(one, name)) == _bare(getattr(other, name)) for name in names)


def moved_reason(wanted: FleetBox | Router, deployment: Deployment) -> str | None:
    """How it runs elsewhere than it should; None if it does not."""
    if deployment.machine != wanted.machine:
        return f"runs on {deployment.machine or 'this machine'}, and fleet.yaml has it at {wanted.at}"
    port = deployment.base_url.rpartition(":")[2]
    if deployment.machine is not None and wanted.local_port is not None and str(wanted.local_port) != port:
        return f"answers here on port {port}, and fleet.yaml has local_port {wanted.local_port}"
    return None


def _bare(value: object) -> object:
    """Settings without their reasons."""
    if isinstance(value, tuple):
        return [(setting.name, setting.value) for setting in value]
    return value


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
