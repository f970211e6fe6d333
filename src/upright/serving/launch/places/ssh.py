"""Another machine, over the user's own ssh: the engine in a session of its own there, its log and its port here.

Nothing of ours is there but a folder with the key, the log and the numbers of its process. The engine outlives every
connection: a tunnel or a log that breaks off is taken up again, and a new supervisor adopts what it finds.
"""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from upright.base.errors import HostError
from upright.base.host import Result, SshHost
from upright.facts.records.deployment import Process
from upright.facts.store import DeploymentDir
from upright.serving.launch.places import remote_scripts
from upright.serving.launch.places.log_file import open_log
from upright.serving.launch.processes import die_with_parent
from upright.serving.launch.runtimes import Command, DeploymentPaths

_LOOK_SECONDS = 2.0
_AGAIN_SECONDS = (1, 2, 4, 8, 15)
_ALIVE = ("-o", "ServerAliveInterval=10", "-o", "ServerAliveCountMax=3", "-o", "ExitOnForwardFailure=yes")


class SshPlace:
    def __init__(self, directory: DeploymentDir, machine: str) -> None:
        self.directory = directory
        self.machine = machine
        self.host = SshHost(machine)
        own = hashlib.sha256(f"{os.uname().nodename}:{directory.path}".encode()).hexdigest()[:8]
        self.folder = f".local/state/upright/{directory.name}-{own}"
        self._process: Process | None = None
        self._looked_at = 0.0
        self._code: int | None = None
        self._site: DeploymentPaths | None = None
        self._tunnel = _Kept("tunnel", directory.path / "supervisor.log")
        self._follower = _Kept("log", directory.path / "supervisor.log")

    def site(self) -> DeploymentPaths:
        if self._site is None:
            reply_lines = self.host.feed('printf "%s\\n" "$HOME" "$(id -u):$(id -g)"').out.splitlines()
            if len(reply_lines) < 2:
                raise HostError(f"{self.machine} did not say where home is")
            home, user = reply_lines[-2:]  # a login shell may greet first
            folder = f"{home}/{self.folder}"
            self._site = DeploymentPaths(
                key_file=f"{folder}/key", key_config=f"{folder}/key.yaml", home=home, user=user
            )
        return self._site

    def run(self, argv: Sequence[str], *, timeout_seconds: float = 60) -> Result:
        return self.host.run(argv, timeout_seconds=timeout_seconds)

    def start(self, command: Command) -> Process:
        script = remote_scripts.start(self.folder, command, self.directory.key(), self.site().key_config)
        reply = self.host.feed(script)
        self._process = remote_scripts.identity(reply.out)
        if self._process is None:
            raise HostError(f"{self.machine} did not start it: {(reply.err.strip() or 'it gave no reason')[-300:]}")
        self._looked_at, self._code = time.monotonic(), None
        return self._process

    def adopt(self, process: Process | None) -> bool:
        reply = self.host.feed(remote_scripts.look(self.folder))
        self._process = remote_scripts.identity(reply.out)
        return self._process is not None and remote_scripts.verdict(reply.out) == "alive"

    def exit_code(self) -> int | None:
        if self._code is not None or time.monotonic() - self._looked_at < _LOOK_SECONDS:
            return self._code
        reply = self.host.feed(remote_scripts.look(self.folder))
        self._looked_at = time.monotonic()
        verdict = remote_scripts.verdict(reply.out)
        if verdict is None:
            raise HostError(f"{self.machine} did not say how its engine is: {reply.err.strip()[-200:]}")
        if verdict == "alive":
            return None
        self._fetch_rest()
        self._code = -signal.SIGKILL if verdict == "gone" else int(verdict)
        return self._code

    def end(self, process: Process | None, *, patience_seconds: float = 10) -> None:
        reply = self.host.feed(remote_scripts.end(self.folder, patience_seconds), timeout_seconds=3 * patience_seconds)
        if remote_scripts.verdict(reply.out) != "gone":
            raise HostError(f"the engine on {self.machine} could not be ended: {reply.err.strip()[-200:]}")
        self._looked_at = 0.0  # its code is there now
        with suppress(HostError):
            self._fetch_rest()

    def tend(self, base_url: str, there: str) -> None:
        local = base_url.rpartition(":")[2]
        self._tunnel.keep(self.host.client("-N", "-L", f"127.0.0.1:{local}:{there}", *_ALIVE))
        if self._process is not None:
            follow = remote_scripts.follow(self.folder, self._received(), self._process.pid)
            self._follower.keep(self.host.client("-T", *_ALIVE, command=follow), into=self.directory.log)

    def meminfo(self) -> str:
        return self.run(("cat", "/proc/meminfo"), timeout_seconds=5).out

    def close(self) -> None:
        self._tunnel.end()
        self._follower.end()
        self.host.close()

    def _fetch_rest(self) -> None:
        """What the log holds beyond what has come so far; the follower is ended first, so that nothing comes twice."""
        self._follower.end()
        rest = self.host.feed(remote_scripts.rest(self.folder, self._received())).out
        with suppress(OSError), open_log(self.directory.log) as log:
            log.write(rest.encode())

    def _received(self) -> int:
        return self.directory.log.stat().st_size if self.directory.log.exists() else 0


class _Kept:
    """An ssh that stays connected, and is started again when it broke off, after a while that grows."""

    def __init__(self, name: str, complaints: Path) -> None:
        self.name = name
        self.complaints = complaints
        self._child: subprocess.Popen[bytes] | None = None
        self._tries = 0
        self._not_before = 0.0

    def keep(self, argv: Sequence[str], *, into: Path | None = None) -> None:
        now = time.monotonic()
        if self._child is not None and self._child.poll() is None:
            if now > self._not_before:
                self._tries = 0
            return
        if now < self._not_before:
            return
        self._not_before = now + _AGAIN_SECONDS[min(self._tries, len(_AGAIN_SECONDS) - 1)]
        self._tries += 1
        with open_log(self.complaints) as complaints, open_log(into or Path(os.devnull)) as output:
            self._child = subprocess.Popen(
                list(argv),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=complaints,
                start_new_session=True,
                preexec_fn=die_with_parent,
                cwd="/",
            )

    def end(self) -> None:
        if self._child is not None:
            self._child.terminate()
            try:
                self._child.wait(5)
            except subprocess.TimeoutExpired:
                self._child.kill()
                self._child.wait()
            self._child = None
        self._not_before = 0.0
