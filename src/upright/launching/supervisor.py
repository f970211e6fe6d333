"""One deployment's keeper: starts the engine, waits for a real answer, watches, ends it. Run as a process of its own.

Not a daemon: it lives exactly as long as its engine. It holds the deployment's lock and alone writes its state.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import FrameType

from upright.diagnosing import cause_in
from upright.endpoint.client import Endpoint
from upright.errors import EndpointError
from upright.launching.launch import changed, supervising
from upright.launching.processes import die_with_parent, end_group, identify, leader
from upright.records.deployment import Deployment
from upright.records.recipe import KEY, KEY_CONFIG, KEY_FILE, Recipe
from upright.store import DeploymentDir

_FIRST_QUESTIONS = 5
"""Tries of the first question, once /health is 200, before the engine counts as broken."""


class _StopAskedError(BaseException):
    """Somebody wants the engine to end while it is being asked its first question."""


class Supervisor:
    """The life of one engine process."""

    def __init__(self, directory: DeploymentDir) -> None:
        self.directory = directory
        self.recipe = directory.read(Recipe)
        self.deployment = directory.read(Deployment)
        self.stopping = False
        self.asking = False
        self.broken: str | None = None

    def begin(self) -> None:
        """From here on a stop reaches this process, and its death is noticed."""
        signal.signal(signal.SIGTERM, self._ask_to_stop)
        signal.signal(signal.SIGINT, self._ask_to_stop)
        self._note(state="starting", supervisor=identify(os.getpid()), exit_code=None, reason=None)

    def run(self) -> None:
        started = time.monotonic()
        try:
            engine = self._start()
        except OSError as error:
            self._note(state="failed", reason=f"{self.recipe.program} cannot be started: {error.strerror}")
            return
        process = leader(engine.pid)
        self._note(process=process)
        self._until_ready(engine, started)
        while engine.poll() is None and not self.stopping and self.broken is None:
            time.sleep(0.2)
        end_group(process)  # workers too, also those of a leader that has crashed
        self._finish(engine.wait())

    def _start(self) -> subprocess.Popen[bytes]:
        argv = [self._with_key_files(word) for word in self.recipe.argv]
        wanted = {item.name: (item.value or "").replace(KEY, self.directory.key()) for item in self.recipe.environment}
        environment = {**os.environ, **wanted}
        with self.directory.log.open("ab") as log:
            return subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,  # a group of its own, so that all of it can be ended
                preexec_fn=die_with_parent,
                cwd="/",
            )

    def _with_key_files(self, word: str) -> str:
        if KEY_CONFIG in word:
            config = self.directory.path / "key.yaml"
            config.touch(mode=0o600)
            config.write_text(f"api-key: {self.directory.key()}\n")
            word = word.replace(KEY_CONFIG, str(config))
        return word.replace(KEY_FILE, str(self.directory.key_file))

    def _until_ready(self, engine: subprocess.Popen[bytes], started: float) -> None:
        """Loading until /health says 200; ready when a real question was answered, which /health does not prove."""
        failures = 0
        with Endpoint(self.recipe.base_url, self.recipe.served_name, key=self.directory.key()) as endpoint:
            while engine.poll() is None and not self.stopping:
                if not endpoint.healthy(self.recipe.health_path):
                    if self.deployment.state == "starting":
                        self._note(state="loading")
                    time.sleep(0.1)
                    continue
                try:
                    self.asking = True
                    endpoint.chat([{"role": "user", "content": "Say OK."}], max_tokens=4, temperature=0)
                    self.asking = False
                except _StopAskedError:
                    return
                except EndpointError as error:
                    self.asking = False
                    failures += 1
                    reason = f"{self.recipe.health_path} says 200, but the first question failed: {error.message}"
                    if failures == _FIRST_QUESTIONS:
                        self.broken = reason
                        return
                    self._note(state="degraded", reason=reason)
                    time.sleep(1)
                else:
                    self._note(state="ready", ready_seconds=round(time.monotonic() - started, 2), reason=None)
                    return

    def _finish(self, code: int) -> None:
        if self.stopping:
            self._note(state="stopped", exit_code=code, reason="stopped on request")
        else:
            self._note(state="failed", exit_code=code, reason=self._why(code))

    def _why(self, code: int) -> str:
        ended = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
        said = self.broken or f"{self.recipe.engine} {ended}"
        cause = cause_in(self.directory.log, self.recipe.engine) if code != -signal.SIGKILL else None
        return f"{said}: {cause}" if cause else said

    def _note(self, **fields: object) -> None:
        self.deployment = changed(self.deployment, **fields)
        self.directory.write(self.deployment)

    def _ask_to_stop(self, number: int, frame: FrameType | None) -> None:
        self.stopping = True
        if self.asking:
            self.asking = False
            raise _StopAskedError


def main() -> None:
    """Take the lock, leave the parent, keep the engine. Whoever called returns when a stop would be heard."""
    directory = DeploymentDir(Path(sys.argv[1]))
    with supervising(directory) as ours:
        if not ours:
            sys.exit(f"{directory.name} has a supervisor already")
        begun, begin = os.pipe()
        if os.fork():
            os.close(begin)
            os.read(begun, 1)  # ends when the child closes its side, or dies
            os._exit(0)  # the child has inherited the lock
        supervisor = Supervisor(directory)
        supervisor.begin()
        os.close(begin)
        supervisor.run()


if __name__ == "__main__":
    main()
