"""This machine: the engine is the supervisor's child, and the kernel ends it when the supervisor dies."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from upright.base.bounds.files import file_bytes
from upright.base.host import LocalHost, Result, passed_environment
from upright.facts.records.deployment import Process
from upright.facts.store import DeploymentDir, write_atomically
from upright.serving.launch.places.log_file import open_log
from upright.serving.launch.processes import die_with_parent, end_group, leader
from upright.serving.launch.runtimes import Command, DeploymentPaths

MEMINFO = Path("/proc/meminfo")


class LocalPlace:
    def __init__(self, directory: DeploymentDir) -> None:
        self.directory = directory
        self._child: subprocess.Popen[bytes] | None = None

    def site(self) -> DeploymentPaths:
        path = self.directory.path
        return DeploymentPaths(
            key_file=str(self.directory.key_file),
            key_config=str(path / "key.yaml"),
            home=str(Path.home()),
            user=f"{os.getuid()}:{os.getgid()}",
        )

    def run(self, argv: Sequence[str], *, timeout_seconds: float = 60) -> Result:
        return LocalHost().run(argv, timeout_seconds=timeout_seconds)

    def start(self, command: Command) -> Process:
        key = self.directory.key()
        config = self.site().key_config
        if config in command.argv:
            _write_once(Path(config), f"api-key: {key}\n".encode())
        for folder in command.folders:
            Path(folder).mkdir(parents=True, exist_ok=True)
        secret = {command.key_variable: key} if command.key_variable else {}
        with open_log(self.directory.log) as log:
            self._child = subprocess.Popen(
                command.argv,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={
                    **passed_environment(os.environ, command.to, named=command.passed),
                    **command.environment,
                    **secret,
                },
                start_new_session=True,  # a group of its own, so that all of it can be ended
                preexec_fn=die_with_parent,
                cwd="/",
            )
        return leader(self._child.pid)

    def adopt(self, process: Process | None) -> bool:
        """Never: it dies with its supervisor, and what is left of its group is ended."""
        return False

    def exit_code(self) -> int | None:
        assert self._child is not None
        return self._child.poll()

    def end(self, process: Process | None, *, patience_seconds: float = 10) -> None:
        if process is not None:
            end_group(process, patience_seconds=patience_seconds)
        if self._child is not None:
            self._child.wait()

    def tend(self, base_url: str, there: str) -> None:
        """It answers where it binds, and writes its log itself."""

    def meminfo(self) -> str:
        try:
            return MEMINFO.read_text(encoding="ascii", errors="replace")
        except OSError:
            return ""

    def close(self) -> None:
        """Nothing is held open."""


def _write_once(path: Path, content: bytes) -> None:
    """A start that finds it as it should be needs nothing of the disk."""
    if not path.exists() or file_bytes(path) != content:
        write_atomically(path, content, mode=0o600)
