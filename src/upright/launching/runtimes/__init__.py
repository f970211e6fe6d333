"""Runtimes: what an engine runs in. One file each, one tiny contract."""

from __future__ import annotations

from upright.launching.runtimes.contract import Command as Command
from upright.launching.runtimes.contract import Runtime as Runtime
from upright.launching.runtimes.contract import Site as Site
from upright.launching.runtimes.docker import DOCKER
from upright.launching.runtimes.podman import PODMAN
from upright.launching.runtimes.process import PROCESS
from upright.records.recipe import Recipe

RUNTIMES: dict[str, Runtime] = {each.name: each for each in (PROCESS, PODMAN, DOCKER)}


def command_shown(recipe: Recipe) -> tuple[str, ...] | None:
    """What a container's runtime would be told; where the key and the home are, only the launcher knows."""
    if recipe.runtime == PROCESS.name:
        return None
    site = Site(key_file="KEY_FILE", key_config="KEY_CONFIG", home="~", user="UID:GID")
    return RUNTIMES[recipe.runtime].command(recipe, site, container="NAME", label="upright.deployment=NAME").argv
