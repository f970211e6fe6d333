"""Recipe + target -> files by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from upright.errors import UsageError
from upright.records.recipe import Recipe
from upright.rendering.compose import compose_file
from upright.rendering.container import slug
from upright.rendering.docker import docker_script
from upright.rendering.kubernetes import kubernetes_manifest
from upright.rendering.podman import podman_script
from upright.rendering.quadlet import quadlet_unit
from upright.rendering.shell import shell_script
from upright.rendering.systemd import systemd_unit


@dataclass(frozen=True)
class Target:
    """One way to write a recipe down."""

    write: Callable[[Recipe], str]
    file: str
    """The file's name; {name} is the served model's."""
    executable: bool = False


TARGETS = {
    "shell": Target(shell_script, "serve-{name}.sh", executable=True),
    "docker": Target(docker_script, "serve-{name}-docker.sh", executable=True),
    "podman": Target(podman_script, "serve-{name}-podman.sh", executable=True),
    "compose": Target(compose_file, "compose.yaml"),
    "quadlet": Target(quadlet_unit, "{name}.container"),
    "systemd": Target(systemd_unit, "{name}.service"),
    "kubernetes": Target(kubernetes_manifest, "{name}.yaml"),
}


def target_named(name: str) -> Target:
    if name not in TARGETS:
        raise UsageError(f"no target named {name}", hint=f"one of {', '.join(TARGETS)}")
    return TARGETS[name]


def file_name(recipe: Recipe, target: str) -> str:
    return target_named(target).file.format(name=slug(recipe))
