"""Places: where an engine runs. This machine, or another one over ssh."""

from __future__ import annotations

from upright.facts.records.deployment import Deployment
from upright.facts.store import DeploymentDir
from upright.serving.launch.places.contract import Place as Place
from upright.serving.launch.places.local import LocalPlace as LocalPlace
from upright.serving.launch.places.ssh import SshPlace as SshPlace


def place_of(deployment: Deployment, directory: DeploymentDir) -> Place:
    if deployment.machine is None:
        return LocalPlace(directory)
    return SshPlace(directory, deployment.machine)
