"""Place: a machine that runs one group of processes, with its log in the deployment's directory here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from upright.base.host import Result
from upright.facts.records.deployment import Process
from upright.serving.launch.runtimes import Command, DeploymentPaths


class Place(Protocol):
    """A machine as the supervisor uses it: one group of processes at a time."""

    def site(self) -> DeploymentPaths: ...
    def run(self, argv: Sequence[str], *, timeout_seconds: float = 60) -> Result:
        """A short command beside the engine."""
        ...

    def start(self, command: Command) -> Process:
        """In a group of its own, its output in engine.log. OSError or HostError if it cannot be started."""
        ...

    def adopt(self, process: Process | None) -> bool:
        """Whether an engine that an earlier supervisor started here still runs; from now on it is ours."""
        ...

    def exit_code(self) -> int | None:
        """None while it runs; minus the signal's number if one killed it. HostError if the machine is out of reach."""
        ...

    def end(self, process: Process | None, *, patience_seconds: float = 10) -> None:
        """SIGTERM, patience, SIGKILL, until nothing of the group is left."""
        ...

    def tend(self, base_url: str, there: str) -> None:
        """Called while it runs: keeps `base_url` leading to where the engine binds (HOST:PORT), and the log coming."""
        ...

    def meminfo(self) -> str:
        """/proc/meminfo of that machine; empty if it cannot be read."""
        ...

    def close(self) -> None: ...
