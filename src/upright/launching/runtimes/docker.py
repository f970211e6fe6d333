"""The engine in a container of docker."""

from __future__ import annotations

from upright.launching.runtimes.containers import ContainerProgram

DOCKER = ContainerProgram("docker", removal=("rm", "--force", "--volumes"))
