"""Deployments that `top` and monitors read in turns, until the stack closes."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from upright.base.bounds.files import key_in
from upright.base.host import LocalHost, SshHost
from upright.facts import store
from upright.facts.records.deployment import RUNNING, Deployment
from upright.facts.records.recipe import Recipe
from upright.facts.store import DeploymentDir
from upright.serving.monitor.polling import DeploymentPoller, DeploymentReading, DeploymentSource, DeploymentSummary
from upright.serving.monitor.power import PowerMeter, Watts
from upright.serving.monitor.target import deployment_target


class WatchedDeployments:
    """The stations of this call; without names, new deployments join."""

    def __init__(
        self,
        names: tuple[str, ...],
        urls: tuple[str, ...],
        key_file: Path | None,
        every: float,
        stack: ExitStack,
        look: Callable[[DeploymentDir], DeploymentSummary],
    ) -> None:
        self._all, self._every, self._stack, self._look = not names and not urls, every, stack, look
        self._meters: dict[str | None, Callable[[], Watts | None]] = {}
        self.stations: dict[str, DeploymentPoller] = {}
        for name in names:
            self._add(store.find(name))
        for url in urls:
            self._start(url, _foreign_source(url, key_file), machine="")
        self.look_around()

    def look_around(self) -> None:
        """Deployments that came since; those that were stopped on purpose go."""
        if not self._all:
            return
        for entry in store.list_deployments():
            if entry.deployment is not None and entry.deployment.state in {*RUNNING, "failed"}:
                self._add(entry.directory)
        gone = [name for name, station in self.stations.items() if station.sight().look.state == "stopped"]
        for name in gone:
            self.stations.pop(name).__exit__(None, None, None)

    def sights(self) -> list[DeploymentReading]:
        return [station.sight() for station in self.stations.values()]

    def _add(self, directory: DeploymentDir) -> None:
        if directory.name not in self.stations:
            self._start(
                directory.name, _source(directory, lambda: self._look(directory)), directory.read(Deployment).machine
            )

    def _start(self, name: str, source: DeploymentSource, machine: str | None) -> None:
        station = DeploymentPoller(source, self._every, self._meter(machine))
        self.stations[name] = self._stack.enter_context(station)

    def _meter(self, machine: str | None) -> Callable[[], Watts | None]:
        """One for each machine; a server that is nobody's deployment stands on a machine that we do not know."""
        if machine == "":
            return lambda: None
        if machine not in self._meters:
            meter = PowerMeter(LocalHost() if machine is None else SshHost(machine))
            self._meters[machine] = self._stack.enter_context(meter).watts
        return self._meters[machine]


def _source(directory: DeploymentDir, look: Callable[[], DeploymentSummary]) -> DeploymentSource:
    deployment = directory.read(Deployment)
    target = deployment_target(deployment, directory.read(Recipe), directory.key_file)
    if target is None:
        return DeploymentSource(look, deployment.base_url, None, path=None)
    url = f"{target.scheme}://{target.address}"
    return DeploymentSource(look, url, directory.key() if target.key_file else None, target.path)


def _foreign_source(url: str, key_file: Path | None) -> DeploymentSource:
    name = url.partition("//")[2].strip("/") or url
    look = DeploymentSummary(name=name, state="answers", base_url=url, next=f"curl -s {url.rstrip('/')}/health")
    return DeploymentSource(lambda: look, url, key_in(key_file) if key_file else None)
