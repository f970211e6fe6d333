"""Metrics endpoints that Prometheus is to scrape: of a fleet, of deployments, or of all that run."""

from __future__ import annotations

from dataclasses import replace

from upright.base.errors import UsageError
from upright.base.progress import Tell
from upright.facts import store
from upright.facts.records.deployment import RUNNING, Deployment
from upright.facts.records.recipe import Recipe
from upright.facts.store import DeploymentDir
from upright.flows.fleet.directory import FleetDir
from upright.flows.fleet.named_fleet import started_fleet
from upright.serving.monitor.target import MetricsTarget, deployment_target


def metrics_targets(names: tuple[str, ...], fleet: str | None, tell: Tell) -> list[MetricsTarget]:
    """Of the fleet and of the names; without either, of every deployment that runs."""
    if fleet is not None:
        return _of_fleet(fleet, tell) + _of_deployments([store.find(name) for name in names], tell)
    if names:
        return _of_deployments([store.find(name) for name in names], tell)
    running = [
        entry
        for entry in store.list_deployments()
        if entry.deployment is not None and entry.deployment.state in RUNNING
    ]
    targets = _of_deployments([entry.directory for entry in running], tell)
    if not targets:
        raise UsageError("no deployment runs", hint="upright up MODEL, or name one that is stopped")
    return targets


def _of_fleet(name: str, tell: Tell) -> list[MetricsTarget]:
    """All its boxes have the same key: one job, however many they are."""
    directory = FleetDir(started_fleet(name).name)
    state = directory.state()
    names = [state.router, *(box.deployment for box in state.boxes)]
    targets = _of_deployments([store.find(deployment) for deployment in names if deployment is not None], tell)
    shared = directory.path / "worker.key"
    return [replace(target, key_file=shared) if target.key_file else target for target in targets]


def _of_deployments(directories: list[DeploymentDir], tell: Tell) -> list[MetricsTarget]:
    targets = []
    for directory in directories:
        target = deployment_target(directory.read(Deployment), directory.read(Recipe), directory.key_file)
        if target is None:
            tell(f"note: {directory.name} has no metrics that can be reached from here, and is left out")
        else:
            targets.append(target)
    return targets
