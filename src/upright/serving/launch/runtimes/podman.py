"""The engine in a container of podman."""

from __future__ import annotations

from upright.serving.launch.runtimes.containers import ContainerProgram

PODMAN = ContainerProgram("podman", removal=("rm", "--force", "--ignore", "--time", "0", "--volumes"))
