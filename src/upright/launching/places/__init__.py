"""Places: where an engine runs. This machine, or another one over ssh."""

from __future__ import annotations

from upright.launching.places.contract import Place as Place
from upright.launching.places.here import Here as Here
from upright.launching.places.over_ssh import OverSsh as OverSsh
from upright.records.deployment import Deployment
from upright.store import DeploymentDir


def place_of(deployment: Deployment, directory: DeploymentDir) -> Place:
    if deployment.machine is None:
        return Here(directory)
    return OverSsh(directory, deployment.machine)
