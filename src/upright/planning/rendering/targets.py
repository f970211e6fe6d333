"""Recipe + target -> files by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from upright.base.errors import UsageError
from upright.facts.records.recipe import Recipe
from upright.planning.rendering.compose import compose_file
from upright.planning.rendering.container import slug
from upright.planning.rendering.kubernetes import kubernetes_manifest
from upright.planning.rendering.leaderworkerset import leader_worker_set
from upright.planning.rendering.quadlet import quadlet_unit
from upright.planning.rendering.run_script import run_script
from upright.planning.rendering.shell import shell_script
from upright.planning.rendering.systemd import systemd_unit
from upright.planning.rendering.writable import checked_writable


class RenderTarget(NamedTuple):
    """One way to write a recipe down."""

    writer: Callable[[Recipe], str]
    file: str
    """The file's name; {name} is the served model's."""
    executable: bool = False

    def write(self, recipe: Recipe) -> str:
        """UsageError if a word of the recipe cannot be written down as it is."""
        return self.writer(checked_writable(recipe))


TARGETS = {
    "shell": RenderTarget(shell_script, "serve-{name}.sh", executable=True),
    "docker": RenderTarget(partial(run_script, runtime="docker"), "serve-{name}-docker.sh", executable=True),
    "podman": RenderTarget(partial(run_script, runtime="podman"), "serve-{name}-podman.sh", executable=True),
    "compose": RenderTarget(compose_file, "compose.yaml"),
    "quadlet": RenderTarget(quadlet_unit, "{name}.container"),
    "systemd": RenderTarget(systemd_unit, "{name}.service"),
    "kubernetes": RenderTarget(kubernetes_manifest, "{name}.yaml"),
}


def target_named(name: str) -> RenderTarget:
    if name not in TARGETS:
        raise UsageError(f"no target named {name}", hint=f"one of {', '.join(TARGETS)}")
    return TARGETS[name]


MULTI_BOX_TARGETS = ("shell", "systemd", "kubernetes")
"""Targets that several boxes can be written down for: containers of the others see no network but their own."""


def file_name(recipe: Recipe, target: str) -> str:
    name = slug(recipe)
    if recipe.nodes > 1 and target != "kubernetes":
        name = f"{name}-node{recipe.node}"
    return target_named(target).file.format(name=name)


def rendered_files(recipes: Sequence[Recipe], target: str) -> dict[str, str]:
    """Files by name: one, or one for each box that holds a part of the model."""
    if len(recipes) == 1:
        return {file_name(recipes[0], target): target_named(target).write(recipes[0])}
    if target not in MULTI_BOX_TARGETS:
        raise UsageError(f"several boxes cannot be written as {target}", hint=f"one of {', '.join(MULTI_BOX_TARGETS)}")
    if target == "kubernetes":
        return {file_name(recipes[0], target): leader_worker_set([checked_writable(recipe) for recipe in recipes])}
    return {file_name(recipe, target): target_named(target).write(recipe) for recipe in recipes}
