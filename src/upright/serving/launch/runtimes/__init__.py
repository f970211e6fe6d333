"""Runtimes: what an engine runs in. The engine itself, or a container; one tiny contract."""

from __future__ import annotations

from upright.facts.records.recipe import Recipe
from upright.serving.launch.runtimes.containers import DOCKER, PODMAN
from upright.serving.launch.runtimes.contract import Command as Command
from upright.serving.launch.runtimes.contract import DeploymentPaths as DeploymentPaths
from upright.serving.launch.runtimes.contract import Runtime as Runtime
from upright.serving.launch.runtimes.process import PROCESS

RUNTIMES: dict[str, Runtime] = {each.name: each for each in (PROCESS, PODMAN, DOCKER)}


def command_preview(recipe: Recipe) -> tuple[str, ...] | None:
    """What a container's runtime would be told; where the key and the home are, only the launcher knows."""
    if recipe.runtime == PROCESS.name:
        return None
    site = DeploymentPaths(key_file="KEY_FILE", key_config="KEY_CONFIG", home="~", user="UID:GID")
    return RUNTIMES[recipe.runtime].command(recipe, site, container="NAME", label="upright.deployment=NAME").argv
