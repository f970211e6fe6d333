"""Runtimes: what an engine runs in. One file each, one tiny contract."""

from upright.launching.runtimes.contract import Command as Command
from upright.launching.runtimes.contract import Runtime as Runtime
from upright.launching.runtimes.contract import Site as Site
from upright.launching.runtimes.docker import DOCKER
from upright.launching.runtimes.podman import PODMAN
from upright.launching.runtimes.process import PROCESS

RUNTIMES: dict[str, Runtime] = {each.name: each for each in (PROCESS, PODMAN, DOCKER)}
