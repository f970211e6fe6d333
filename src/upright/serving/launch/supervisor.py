"""The supervisor of one deployment: starts the engine, waits for a real answer, watches, restarts and ends it.

Not a daemon: it lives exactly as long as its engine. It holds the deployment's lock and alone writes its state.
"""

from __future__ import annotations

import os
import re
import signal
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

from upright.base.bounds.files import open_file
from upright.base.errors import EndpointError, HostError, StoreError, UnansweredError
from upright.base.home import restrict_umask
from upright.facts.records.deployment import RUNNING, Deployment
from upright.facts.records.recipe import Recipe
from upright.facts.store import DeploymentDir
from upright.planning.rendering.container import ALL_ADDRESSES
from upright.serving.diagnose import cause_in_log
from upright.serving.endpoint.client import Endpoint
from upright.serving.launch import stacks
from upright.serving.launch.health import (
    HealthWatch,
    LogSilence,
    ask_test_question,
    fall_told_by_health,
    healthy_while_loading,
)
from upright.serving.launch.launch import container_name, ending_seconds
from upright.serving.launch.locks import inherited_lock, restarts_suspended, supervisor_lock
from upright.serving.launch.logs import ProgressReader, rotate_log
from upright.serving.launch.memory_guard import MemoryGuard
from upright.serving.launch.places import place_of
from upright.serving.launch.processes import identify
from upright.serving.launch.runtimes import RUNTIMES, Command
from upright.serving.launch.state_writer import StateWriter, log_problem
from upright.serving.launch.workers import WorkerRecorder, note_limits

_FIRST_QUESTIONS = 5
"""Tries of the first question, once /health is 200, before the engine counts as broken."""
_HUNG_LOOKS = 3
"""So many looks in a row at which it hung, before it is ended and started again."""
_STEADY_SECONDS = 3600.0
"""After so long a service a death is the first one again."""
_LONGEST_PAUSE_SECONDS = 60
_SHORT_OF_MEMORY_SECONDS = 1.0
"""What an engine is given to end by itself when the machine is about to stop answering."""
_LAST_WORDS_SECONDS = 10.0
"""How long a stop waits for a disk that takes nothing."""


class _StopAskedError(BaseException):
    """Somebody wants the engine to end while it is being asked a question."""


class Supervisor:
    """The life of one deployment, over the starts of its engine."""

    def __init__(self, directory: DeploymentDir) -> None:
        self.directory = directory
        self.recipe = directory.read(Recipe)
        self.notes = StateWriter(directory)
        self.runtime = RUNTIMES[self.recipe.runtime]
        self.place = place_of(self.deployment, directory)
        self.recovering = self.deployment.state in RUNNING
        self.adopted = False
        self.reached = True
        self.stopping = False
        self.asking = False
        self.broken: str | None = None
        self.out_of_memory = False
        self.workers = WorkerRecorder(self.directory)
        self.guard = MemoryGuard(self.recipe, self.place.meminfo)
        self.started_at = time.monotonic()
        self.ready_at: float | None = None

    @property
    def deployment(self) -> Deployment:
        return self.notes.deployment

    def begin(self) -> None:
        """From here on a stop reaches this process, and its death is noticed."""
        signal.signal(signal.SIGTERM, self._ask_to_stop)
        signal.signal(signal.SIGINT, self._ask_to_stop)
        if self.recovering:
            self._note(supervisor=identify(os.getpid()))
        else:
            self._note(state="starting", supervisor=identify(os.getpid()), exit_code=None, reason=None)

    def run(self) -> None:
        """One start after another, until it is stopped, or dead for good."""
        try:
            if self.recovering and not self._adopted():
                return
            while self.recovering or self._started():
                self.recovering = False
                self._serve()
                self._end_engine()
                if self.stopping or not self._again():
                    return
        except HostError as error:
            left = f"; what runs on {self.deployment.machine} could not be ended" if self.stopping else ""
            self._note(state="failed", reason=error.message + left)
        except Exception as error:
            self._give_up(error)
        finally:
            self.place.close()
            self._last_words()

    def _give_up(self, error: Exception) -> None:
        """A bug of ours: the engine is ended, and the record says why nobody keeps it any more."""
        log_problem("".join(traceback.format_exception(error)))
        with suppress(Exception):
            patience = _SHORT_OF_MEMORY_SECONDS if self.out_of_memory else ending_seconds(self.recipe.runtime)
            self.place.end(self.deployment.process, patience_seconds=patience)
        self._note(state="failed", reason=f"its supervisor broke: {type(error).__name__}: {error}"[:500], progress=None)

    def _last_words(self) -> None:
        """The end is written before this process is gone. Whoever asked for it waits, and not for ever."""
        deadline = time.monotonic() + _LAST_WORDS_SECONDS
        while not self.notes.is_written and not (self.stopping and time.monotonic() > deadline):
            time.sleep(0.1)
            self.notes.catch_up()

    def _adopted(self) -> bool:
        """Another machine's engine goes on without us: take it up where the last supervisor left it."""
        self.ready_at = time.monotonic() if self.deployment.state in ("ready", "degraded", "hung") else None
        while not self.stopping:
            try:
                self.adopted = self.place.adopt(self.deployment.process)
                if self.adopted:
                    return True
                self._note(state="failed", exit_code=None, reason="its engine had ended when it was looked for again")
            except HostError as error:
                self._note(state="degraded", reason=f"{error.message}; trying again")
                self._pause(5)
            else:
                return False
        return True  # a stop is wanted: what runs there is ended

    def _started(self) -> bool:
        """False if it is not running: it could not be started, or a stop came first."""
        self._set_log_aside()
        self.adopted, self.broken, self.ready_at = False, None, None
        try:
            if not self._pulled():
                return False
            site = self.place.site()
            name = container_name(self.directory)
            label = f"upright.deployment={self.directory.name}"
            if (stale := self.runtime.remove(name)) is not None:
                self.place.run(stale)  # an earlier start's, if a kill left it
            command = self.runtime.command(self.recipe, site, container=name, label=label)
            self.started_at = time.monotonic()
            self._note(state="starting", process=self.place.start(command), progress=None)
            self.workers = WorkerRecorder(self.directory)
            if self.recipe.runtime == "process" and self.deployment.machine is None:
                note_limits(self.directory)
        except (OSError, StoreError) as error:
            program = self.runtime.program or self.recipe.program
            reason = error.message if isinstance(error, StoreError) else error.strerror
            self._note(state="failed", reason=f"{program} cannot be started: {reason}")
            return False
        return True

    def _set_log_aside(self) -> None:
        try:
            rotate_log(self.directory)
        except OSError as error:
            log_problem(f"the log of the start before could not be set aside, and goes on: {error.strerror}")

    @property
    def _there(self) -> str:
        """Where it binds on its machine; every address is also the loopback."""
        host = "127.0.0.1" if self.recipe.host == ALL_ADDRESSES else self.recipe.host
        return f"{host}:{self.recipe.port}"

    def _pulled(self) -> bool:
        """The image is there, or was brought."""
        present = self.runtime.present(self.recipe)
        if present is None or self.place.run(present).ok:
            return True
        pull: Command = self.runtime.pull(self.recipe)
        self._note(state="pulling", process=self.place.start(pull), reason=f"{self.recipe.image} is not here yet")
        progress = ProgressReader(self.directory.log)
        while not self.stopping and (code := self.place.exit_code()) is None:
            self.place.tend(self.deployment.base_url, self._there)
            self._show(progress)
            self.notes.catch_up()
            time.sleep(0.2)
        self.place.end(self.deployment.process)
        if self.stopping:
            self._note(state="stopped", reason="stopped on request", progress=None)
        elif code == 0:
            self._set_log_aside()  # the pull's words are not the engine's
            self._note(state="starting", reason=None, progress=None)
            return True
        else:
            reason = f"{self.recipe.image} could not be pulled: {last_log_line(self.directory.log, code)}"
            self._note(state="failed", exit_code=code, reason=reason, progress=None)
        return False

    def _serve(self) -> None:
        """Until the engine has ended, or is broken, or a stop is wanted."""
        if self.ready_at is None:
            with self._connect(self.deployment.keeping.hung_seconds) as endpoint:
                self._until_ready(endpoint)
        if self.ready_at is not None:
            self._watch()

    def _connect(self, limit_seconds: float) -> Endpoint:
        name, key = self.recipe.served_name, self.directory.key()
        return Endpoint(self.deployment.base_url, name, key=key, timeout_seconds=limit_seconds)

    def _until_ready(self, endpoint: Endpoint) -> None:
        """Loading until /health says 200; ready when a real question was answered, which /health does not prove."""
        failures = 0
        silence, progress = LogSilence(self.deployment.keeping.silent_seconds), ProgressReader(self.directory.log)
        while not self.stopping and self.broken is None and self._runs():
            if not self.reached:
                self._pause(2)
                continue
            if (status := endpoint.health_status(self.recipe.health_path)) != 200:
                self.broken = fall_told_by_health(self.recipe, status)
                self._show(progress)
                self._loading(silence)
                time.sleep(0.1)
                continue
            try:
                with self._may_be_interrupted():
                    self._unless_stopped()
                    ask_test_question(endpoint)
            except EndpointError as error:
                if isinstance(error, UnansweredError) and healthy_while_loading(self.recipe):
                    self._show(progress)
                    self._loading(silence)
                    continue
                failures += 1
                reason = f"{self.recipe.health_path} says 200, but the first question failed: {error.message}"
                self._note(state="hung" if isinstance(error, UnansweredError) else "degraded", reason=reason)
                self.broken = reason if failures == _FIRST_QUESTIONS else None
                self._pause(1)
            else:
                if not self.stopping:
                    seconds = None if self.adopted else round(time.monotonic() - self.started_at, 2)
                    self.ready_at = time.monotonic()
                    if not self.adopted:
                        progress.catch_up()
                    self._note(state="ready", ready_seconds=seconds, reason=None, progress=None)
                return

    def _loading(self, silence: LogSilence) -> None:
        log = self.directory.log
        if silence.lasts(log.stat().st_size if log.exists() else 0):
            reason = f"its log has been silent for {silence.limit_seconds:g} s while it loads"
            self._note(state="hung", reason=reason)
        elif self.deployment.state != "loading":
            self._note(state="loading", reason=None)

    def _watch(self) -> None:
        watch = HealthWatch(self._connect, self.recipe, self.deployment.keeping, self.directory.log)
        hung = 0
        while not self.stopping and self.broken is None and hung < _HUNG_LOOKS and self._runs():
            seen = None
            if self.reached and (watch.due() or self.deployment.state != "ready"):
                with self._may_be_interrupted():
                    self._unless_stopped()
                    seen = watch.look()
            if seen is not None and self._runs():  # a question fails too when the engine is gone
                self._note(state=seen.state, reason=seen.reason)
                self.broken = seen.reason if seen.fallen else None
                hung = hung + 1 if seen.state == "hung" and self._may_restart() else 0
            self._pause(0.2 if self.deployment.state == "ready" else 2)
        if hung >= _HUNG_LOOKS and not self.stopping:
            self._give_up_waiting()

    def _may_restart(self) -> bool:
        """What hangs is ended only to be started again: else it is left as it is, for whoever wants to look."""
        return not restarts_suspended(self.directory) and self.deployment.restarts < self.deployment.keeping.restarts

    def _give_up_waiting(self) -> None:
        """It hung too long: what it waits for is written down where `diagnose` reads it, then it counts as broken."""
        evidence: list[str] = []
        process = self.deployment.process
        if process is not None and self.recipe.runtime == "process" and self.deployment.machine is None:
            with suppress(OSError):
                evidence = stacks.process_states(process)
                stacks.dump(process, self.directory.path / stacks.FILE)
        self.broken = "; ".join((f"it hung: {self.deployment.reason}", *evidence[:1]))
        with suppress(OSError), self.directory.log.open("a", encoding="utf-8") as log:
            log.writelines(f"upright: {line}\n" for line in (self.broken, *evidence))

    def _runs(self) -> bool:
        """Whether the engine is there. A machine out of reach is no reason to give it up, nor is a full disk."""
        self.notes.catch_up()
        try:
            self.place.tend(self.deployment.base_url, self._there)
            running = self.place.exit_code() is None
        except HostError as error:
            self.reached = False
            self._note(state="degraded", reason=f"{error.message}; trying again")
            return True
        self.reached = True
        if running and self.recipe.runtime == "process" and self.deployment.machine is None:
            self.workers.look(self.deployment.process)
        if running and (trouble := self.guard.trouble()) is not None:
            self.out_of_memory, self.broken = True, trouble
            with suppress(OSError), self.directory.log.open("a", encoding="utf-8") as log:
                log.write(f"upright: {trouble}\n")  # where `diagnose` reads it
            return False
        return running

    def _end_engine(self) -> None:
        """Workers too, also those of a leader that has crashed, and a container whose client was killed."""
        code = None
        if not self.stopping and self.broken is None:
            code = self.place.exit_code()
        patience = _SHORT_OF_MEMORY_SECONDS if self.out_of_memory else ending_seconds(self.recipe.runtime)
        self.place.end(self.deployment.process, patience_seconds=patience)
        if (left := self.runtime.remove(container_name(self.directory))) is not None:
            self.place.run(left)
        if self.stopping:
            self._note(state="stopped", exit_code=self._code(), reason="stopped on request", progress=None)
        else:
            self._note(exit_code=self._code() if code is None else code, progress=None)

    def _code(self) -> int | None:
        try:
            return self.place.exit_code()
        except HostError:
            return None

    def _again(self) -> bool:
        """Whether to start it once more: one that had been ready, that nobody is trying out, and only so often."""
        code = self.deployment.exit_code
        reason = exit_reason(self.recipe, code, self.directory.log, said=self.broken)
        if self.ready_at is not None and time.monotonic() - self.ready_at > _STEADY_SECONDS:
            self._note(restarts=0)
        done, allowed = self.deployment.restarts, self.deployment.keeping.restarts
        allowed = 0 if restarts_suspended(self.directory) or self.out_of_memory else allowed
        if self.ready_at is None or done >= allowed:
            tried = f" (after {done} restarts)" if done else ""
            self._note(state="failed", reason=reason + tried)
            return False
        pause = min(2**done, _LONGEST_PAUSE_SECONDS)
        notice = f"{reason}; starts again in {pause} s ({done + 1} of {allowed})"
        self._note(state="starting", reason=notice, process=None, restarts=done + 1)
        self._pause(pause)
        if self.stopping:
            self._note(state="stopped", reason="stopped on request")
        return not self.stopping

    def _show(self, progress: ProgressReader) -> None:
        if (now := progress.read()) != self.deployment.progress:
            self._note(progress=now)

    def _note(self, **fields: object) -> None:
        self.notes.note(**fields)

    def _pause(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while not self.stopping and (left := until - time.monotonic()) > 0:
            self.notes.catch_up()
            time.sleep(min(left, 0.2))

    @contextmanager
    def _may_be_interrupted(self) -> Iterator[None]:
        """A stop is heard at once here, in the middle of a question."""
        self.asking = True
        try:
            yield
        except _StopAskedError:
            pass
        finally:
            self.asking = False

    def _unless_stopped(self) -> None:
        """A stop that came just before a question interrupts nothing any more: it is looked for."""
        if self.stopping:
            raise _StopAskedError

    def _ask_to_stop(self, number: int, frame: FrameType | None) -> None:
        self.stopping = True
        if self.asking:
            self.asking = False
            raise _StopAskedError


def main() -> None:
    """Take the lock, leave the parent, keep the engine. Whoever called returns when a stop would be heard."""
    restrict_umask()
    directory, given = DeploymentDir(Path(sys.argv[1])), sys.argv[2:]
    with inherited_lock(int(given[0])) if given else supervisor_lock(directory) as ours:
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


_TAIL_BYTES = 16_384
_RUNTIME_FAILED = (125, 126, 127)
_RUNTIME_SAYS = re.compile(r"^(?:Error: |docker: |Error response from daemon: )(.+)$", re.MULTILINE)


def exit_reason(recipe: Recipe, code: int | None, log: Path, *, said: str | None = None) -> str:
    """What is known already, and the cause that the log names. A container's client adds 128 to a signal's number."""
    contained = recipe.runtime != "process"
    if contained and code is not None and code > 128:
        code = 128 - code
    if contained and code in _RUNTIME_FAILED and (complaints := _RUNTIME_SAYS.findall(_tail(log))):
        return f"{recipe.runtime} could not run it: {complaints[-1].strip()}"
    summary = said or f"{recipe.engine} {_ended(code)}"
    cause = cause_in_log(log, recipe.engine) if code != -signal.SIGKILL and log.exists() else None
    return f"{summary}: {cause}" if cause else summary


def last_log_line(log: Path, code: int | None) -> str:
    """The last line that a command wrote; how it ended if it wrote none."""
    lines = [line.strip() for line in _tail(log).splitlines() if line.strip()]
    return lines[-1].removeprefix("Error: ") if lines else _ended(code)


def _tail(log: Path) -> str:
    if not log.exists():
        return ""
    with open_file(log) as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
        return file.read().decode(errors="replace")


def _ended(code: int | None) -> str:
    if code is None:
        return "ended"
    if code >= 0:
        return f"ended with code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"


if __name__ == "__main__":
    main()
