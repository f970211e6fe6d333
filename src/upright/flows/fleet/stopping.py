"""Stops a deployment of the fleet, or says why it may still run."""

from __future__ import annotations

from collections.abc import Callable

from upright.base.errors import LaunchError, UprightError
from upright.facts.records.deployment import RUNNING, Deployment
from upright.facts.store import DeploymentDir
from upright.serving.launch import stop


def stop_deployment(here: DeploymentDir, and_then: Callable[[], None] = lambda: None) -> Deployment | UprightError:
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
