"""The engine in a container of docker."""

from __future__ import annotations

from upright.serving.launch.runtimes.containers import ContainerProgram

DOCKER = ContainerProgram("docker", removal=("rm", "--force", "--volumes"))
