"""The engine in a container of docker."""

from __future__ import annotations

from upright.launching.runtimes.containers import ContainerRuntime

DOCKER = ContainerRuntime("docker", removal=("rm", "--force", "--volumes"))
