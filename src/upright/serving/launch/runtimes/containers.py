"""The engine in a container of podman or docker: the command that `render` writes too, in the foreground.

The client is the engine's process for us: it forwards signals and ends with the container's code. A client that is
killed leaves its container behind, so the container's name is known before it exists and `remove` takes it away.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from upright.base.errors import UsageError
from upright.facts.records.recipe import Recipe
from upright.planning.rendering.container import CACHE_FOLDER, container_of
from upright.planning.rendering.quoting import expand_home
from upright.planning.rendering.run_options import RunPaths, run_command
from upright.serving.launch.runtimes.contract import Command, DeploymentPaths


@dataclass(frozen=True)
class ContainerProgram:
    """Fields are what differs between the two."""

    name: str
    removal: tuple[str, ...]

    @property
    def program(self) -> str:
        return self.name

    def command(self, recipe: Recipe, site: DeploymentPaths, *, container: str, label: str) -> Command:
        cache = expand_home(CACHE_FOLDER, site.home)
        places = RunPaths(
            model_folder=expand_home(container_of(recipe).mounts[0].source, site.home),
            cache_folder=cache,
            key_file=site.key_file,
            user=site.user,
            port=str(recipe.port),
            address=recipe.host,
        )
        argv = run_command(recipe, self.name, places, name=container, label=label)
        return Command(argv=argv, folders=(cache,), to="client", passed=recipe.passed)

    def present(self, recipe: Recipe) -> Sequence[str]:
        return (self.name, "image", "inspect", "--format", "{{.Id}}", _image(recipe))

    def pull(self, recipe: Recipe) -> Command:
        return Command(argv=(self.name, "pull", _image(recipe)), to="client")

    def remove(self, container: str) -> Sequence[str]:
        return (self.name, *self.removal, container)


PODMAN = ContainerProgram("podman", removal=("rm", "--force", "--ignore", "--time", "0", "--volumes"))
DOCKER = ContainerProgram("docker", removal=("rm", "--force", "--volumes"))


def _image(recipe: Recipe) -> str:
    if recipe.image is None:
        raise UsageError(f"no image of {recipe.engine} is known", hint="name yours: --image NAME:TAG")
    return recipe.image
