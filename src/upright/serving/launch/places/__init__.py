"""Places: where an engine runs. This machine, or another one over ssh."""

from __future__ import annotations

from upright.facts.records.deployment import Deployment
from upright.facts.store import DeploymentDir
from upright.serving.launch.places.contract import Place as Place
from upright.serving.launch.places.here import Here as Here
from upright.serving.launch.places.over_ssh import OverSsh as OverSsh


def place_of(deployment: Deployment, directory: DeploymentDir) -> Place:
    if deployment.machine is None:
        return Here(directory)
    return OverSsh(directory, deployment.machine)
