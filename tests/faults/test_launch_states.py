"""What a supervisor makes of an engine that hangs, fails and comes back: scripted, since a real one does not on cue."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from threading import Thread, Timer
from types import SimpleNamespace
from typing import Any

import pytest

from tests.golden.deployments import recipe as golden
from tests.ports import free_port
from upright.base.errors import LaunchError
from upright.engines import ENGINES
from upright.facts import store
from upright.facts.records.deployment import Deployment, Keeping
from upright.facts.records.recipe import Recipe
from upright.facts.store import DeploymentDir
from upright.serving.diagnose import diagnose_file
from upright.serving.launch import launch, logs, restart, status, stop
from upright.serving.launch.locks import inheritable_lock, is_supervised, supervisor_lock, without_restarts
from upright.serving.launch.processes import identify

pytestmark = pytest.mark.engine

ENGINE = """
import http.server, json, os, sys, threading, time
mode_file = sys.argv[1]
def mode(): return open(mode_file).read().strip()
print("Loading safetensors checkpoint shards:  33% Completed | 1/3 [00:24<00:49, 24.61s/it]", flush=True)
while mode() == "loading": time.sleep(0.05)
if mode() == "dies": sys.exit(3)
count = 0
class Engine(http.server.BaseHTTPRequestHandler):
    def log_message(self, *words): pass
    def say(self, code, text):
        self.send_response(code); self.end_headers(); self.wfile.write(text.encode())
    def do_GET(self):
        global count
        count += mode() == "busy"
        if self.path == "/health": self.say(200, "")
        else: self.say(200, f"# HELP tokens\\nvllm:generation_tokens_total {count}\\n")
    def do_POST(self):
        print("asked", flush=True)
        if mode() in ("hangs", "busy"): time.sleep(30)
        if mode() == "fails": self.say(500, "CUDA error"); return
        self.say(200, json.dumps({"choices": [{"message": {"content": "OK"}}]}))
def behind():
    for number in range(20): print("a line from before", flush=True); time.sleep(0.1)
    print("INFO:     Application startup complete.", flush=True)
if mode() == "behind": threading.Thread(target=behind, daemon=True).start()
http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[2])), Engine).serve_forever()
"""
IMPATIENT = Keeping(restarts=0, question_seconds=0.2, hung_seconds=1, silent_seconds=1)


class Scripted:
    """An engine that behaves as its file says."""

    def __init__(self, folder: Path) -> None:
        self.mode_file = folder / "mode"
        program = folder / "engine.py"
        program.write_text(ENGINE)
        port = free_port()
        words = ((str(program), None), (str(self.mode_file), None), (str(port), None))
        plain = golden("kimi-k26-vllm")
        setting = plain.arguments[0]
        self.recipe: Recipe = plain.model_copy(
            update={
                "program": sys.executable,
                "port": port,
                "arguments": tuple(setting.model_copy(update={"name": name, "value": value}) for name, value in words),
            }
        )
        self.directory: DeploymentDir = store.create("scripted")

    def is_(self, mode: str) -> None:
        beside = self.mode_file.with_suffix(".new")
        beside.write_text(mode)
        beside.rename(self.mode_file)

    def launch(self, keeping: Keeping = IMPATIENT, **more: Any) -> Deployment:
        return launch(self.recipe, self.directory, keeping=keeping, **more)

    def until(self, state: str, seconds: float = 60) -> Deployment:
        deadline = time.monotonic() + seconds
        while (now := status(self.directory)).state != state:
            assert time.monotonic() < deadline, now.history
            time.sleep(0.05)
        return now


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scripted]:
    monkeypatch.setenv("UPRIGHT_HOME", str(tmp_path / "home"))
    scripted = Scripted(tmp_path)
    yield scripted
    scripted.is_("ok")
    if scripted.directory.has(Deployment):
        stop(scripted.directory)


def test_it_degrades_and_comes_back(engine: Scripted):
    engine.is_("ok")
    assert engine.launch().state == "ready"
    engine.is_("fails")
    now = engine.until("degraded")
    assert now.reason is not None
    assert "/health says 200, but a question failed" in now.reason
    assert "HTTP 500: CUDA error" in now.reason
    engine.is_("ok")
    assert engine.until("ready").reason is None
    assert stop(engine.directory).state == "stopped"


def test_it_hangs_and_comes_back(engine: Scripted):
    engine.is_("ok")
    engine.launch()
    engine.is_("hangs")
    now = engine.until("hung")
    assert now.reason == "a question was not answered for 1 s, and no token counted"
    engine.is_("ok")
    assert engine.until("ready").reason is None


@pytest.mark.slow
def test_what_hangs_too_long_is_started_again(engine: Scripted):
    """What it waited for is written down before it is ended, and `diagnose` names it."""
    engine.is_("ok")
    first = engine.launch(IMPATIENT.model_copy(update={"restarts": 1}))
    engine.is_("hangs")
    assert first.process is not None
    now = engine.until("starting")
    engine.is_("ok")
    assert "it hung: a question was not answered for 1 s" in (now.reason or "")
    assert f"process {first.process.pid} (" in (now.reason or "")
    again = engine.until("ready")
    assert again.restarts == 1
    assert again.process != first.process
    assert f"# process {first.process.pid} (" in (engine.directory.path / "stacks.txt").read_text()
    assert diagnose_file(logs.earlier_logs(engine.directory)[0]).code == "hung-while-serving"


def test_a_busy_engine_is_not_asked(engine: Scripted):
    """It would not answer, but its tokens are counted on: that is work, not a hang."""
    engine.is_("ok")
    engine.launch(IMPATIENT.model_copy(update={"question_seconds": 0.5}))
    time.sleep(1.2)  # it was idle, and was asked
    engine.is_("busy")
    time.sleep(1)  # a question that was on its way has arrived
    asked = engine.directory.log.read_text().count("asked")
    time.sleep(2.5)
    assert status(engine.directory).state == "ready"
    assert engine.directory.log.read_text().count("asked") <= asked + 1


def test_a_silent_log_while_loading_is_a_hang(engine: Scripted):
    engine.is_("loading")
    seen: list[Deployment] = []

    def on_change(now: Deployment) -> None:
        seen.append(now)
        if now.state == "hung":
            engine.is_("ok")

    assert engine.launch(on_change=on_change).state == "ready"
    hung = next(now for now in seen if now.state == "hung")
    assert hung.reason == "its log has been silent for 1 s while it loads"
    told = [now.progress for now in seen if now.progress is not None]
    assert (told[0].phase, told[0].done, told[0].of, told[0].seconds_left) == ("weights", 1, 3, 49)
    assert seen[-1].progress is None


def test_a_boot_failure_is_never_started_again(engine: Scripted):
    engine.is_("dies")
    with pytest.raises(LaunchError, match="scripted did not come up: vllm ended with code 3"):
        engine.launch(Keeping(restarts=5))
    assert status(engine.directory).restarts == 0
    assert logs.earlier_logs(engine.directory) == []


@pytest.mark.slow
def test_a_crash_is_an_answer_while_it_is_tried_and_mended_afterwards(engine: Scripted):
    """What was wished for is in the record all the time; a trial that is killed ends with its process."""
    engine.is_("ok")
    keeping = IMPATIENT.model_copy(update={"restarts": 1})
    with without_restarts(engine.directory):
        first = engine.launch(keeping)
        os.kill(first.process.pid, signal.SIGKILL)
        assert engine.until("failed").restarts == 0
        second = restart(engine.directory)
    assert second.keeping == keeping
    os.kill(second.process.pid, signal.SIGKILL)
    engine.until("starting")
    assert engine.until("ready").restarts == 1


def test_a_restart_waits_for_a_supervisor_that_has_written_its_last_word(engine: Scripted):
    engine.is_("dies")
    with pytest.raises(LaunchError):
        engine.launch()
    leaving = subprocess.Popen(["flock", "--no-fork", engine.directory.path / "lock", "sleep", "1"])
    try:
        while is_free(engine.directory):
            time.sleep(0.01)
        failed = status(engine.directory)
        engine.directory.write(failed.model_copy(update={"supervisor": identify(leaving.pid)}))
        engine.is_("ok")
        assert restart(engine.directory).state == "ready"
    finally:
        leaving.wait(10)


def is_free(directory: DeploymentDir) -> bool:
    with supervisor_lock(directory) as ours:
        return ours


def test_a_log_that_is_behind_the_first_answer_is_waited_for(engine: Scripted):
    """What a start took is read from the log as soon as it is ready."""
    engine.is_("behind")
    assert engine.launch().state == "ready"
    assert "Application startup complete" in engine.directory.log.read_text()


def test_an_engine_that_is_healthy_while_it_loads_is_waited_for(engine: Scripted):
    """More questions than others are given go unanswered; then the weights are there."""
    early = next(name for name, each in ENGINES.items() if each.http.healthy_while_loading)
    engine.recipe = engine.recipe.model_copy(update={"engine": early})
    engine.is_("hangs")
    loaded = threading.Timer(9, engine.is_, ("ok",))
    loaded.start()
    assert engine.launch().state == "ready"


def test_healthy_and_never_answering_is_not_ready(engine: Scripted):
    engine.is_("fails")
    with pytest.raises(LaunchError, match="/health says 200, but the first question failed"):
        engine.launch()
    states = [step.state for step in status(engine.directory).history]
    assert "ready" not in states
    assert states[-1] == "failed"


def test_a_recipe_that_cannot_be_started_leaves_the_engine_running(engine: Scripted):
    engine.is_("ok")
    before = engine.launch()
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        taken = engine.recipe.model_copy(update={"port": other.getsockname()[1]})
        with pytest.raises(LaunchError, match="cannot be had"):
            restart(engine.directory, taken)
    now = status(engine.directory)
    assert (now.state, now.process) == ("ready", before.process)
    assert engine.directory.read(Recipe) == engine.recipe


def test_only_one_writes(engine: Scripted):
    """Whoever does not hold the lock leaves the state alone."""
    engine.is_("ok")
    before = engine.launch()
    argv = [sys.executable, "-m", "upright.serving.launch.supervisor", str(engine.directory.path)]
    second = subprocess.run(argv, capture_output=True, text=True, timeout=30)
    assert second.returncode == 1
    assert second.stderr.strip() == "scripted has a supervisor already"
    assert status(engine.directory).supervisor == before.supervisor


def test_the_newest_logs_are_kept(engine: Scripted):
    for number in range(1, 9):
        engine.directory.log.write_text(f"start {number}\n")
        logs.rotate_log(engine.directory)
    assert [path.read_text() for path in logs.earlier_logs(engine.directory)] == [f"start {n}\n" for n in range(4, 9)]
    logs.rotate_log(engine.directory)
    assert len(logs.earlier_logs(engine.directory)) == logs.KEPT


def test_a_log_is_followed_over_starts(engine: Scripted, monkeypatch: pytest.MonkeyPatch):
    engine.directory.log.write_text("one\ntw")
    happens: list[Callable[[], object]] = [
        lambda: engine.directory.log.write_text("one\ntwo\n"),
        lambda: (logs.rotate_log(engine.directory), engine.directory.log.write_text("three\n")),
    ]
    state = Deployment.model_construct(state="ready")
    monkeypatch.setattr(logs, "status", lambda directory: state)
    monkeypatch.setattr(logs, "_GONE_SECONDS", 0.1)
    got = ""
    for piece in logs.follow(engine.directory):
        got += piece
        if happens:
            happens.pop(0)()
        else:
            state = Deployment.model_construct(state="stopped")
    assert got == "one\ntwo\nthree\n"


@pytest.mark.slow
def test_a_log_is_followed_while_the_next_start_is_slow(engine: Scripted, monkeypatch: pytest.MonkeyPatch):
    """A restart is stopped and planned for as long as the machine needs to start a supervisor: its lock is held."""
    held = ExitStack()
    looks: list[Callable[[], object]] = [
        lambda: None,
        lambda: None,
        lambda: engine.directory.log.write_text("one\nlast words\n"),
        lambda: (logs.rotate_log(engine.directory), engine.directory.log.write_text("two\n")),
        held.close,
    ]
    state = Deployment.model_construct(state="planned")
    monkeypatch.setattr(logs, "status", lambda directory: state)
    monkeypatch.setattr(logs, "_GONE_SECONDS", 0)
    monkeypatch.setattr(
        logs, "time", SimpleNamespace(sleep=lambda _: looks and looks.pop(0)(), monotonic=time.monotonic)
    )
    engine.directory.log.write_text("one\n")
    held.enter_context(supervisor_lock(engine.directory))
    assert "".join(logs.follow(engine.directory)) == "one\nlast words\ntwo\n"
    assert looks == []


def test_a_look_at_the_lock_does_not_refuse_a_start(engine: Scripted):
    """`ps` and `logs` ask who has the lock by taking it for a moment."""
    looking = ExitStack()
    looking.enter_context(supervisor_lock(engine.directory))
    Timer(0.2, looking.close).start()
    with inheritable_lock(engine.directory):
        assert is_supervised(engine.directory)


@pytest.mark.slow
@pytest.mark.parametrize("allowed", [1, 2])
def test_it_is_started_again_as_often_as_allowed_and_not_once_more(engine: Scripted, allowed: int):
    engine.is_("ok")
    engine.launch(IMPATIENT.model_copy(update={"restarts": allowed}))
    for done in range(allowed + 1):
        ready = engine.until("ready")
        assert ready.restarts == done
        assert ready.process is not None
        os.kill(ready.process.pid, signal.SIGKILL)
        while status(engine.directory).process == ready.process and status(engine.directory).state == "ready":
            time.sleep(0.02)
    ended = engine.until("failed")
    assert ended.restarts == allowed
    assert ended.reason is not None
    assert ended.reason.endswith(f"(after {allowed} restarts)")


@pytest.mark.parametrize("seconds", [0.0, 0.3, pytest.param(1.5, marks=pytest.mark.slow)])
def test_down_during_up_ends_both(engine: Scripted, seconds: float):
    """Whoever starts is told that it was stopped; nothing is left that runs, and a second start stands."""
    engine.is_("loading")
    ended: list[Deployment | Exception] = []

    def start() -> None:
        try:
            ended.append(engine.launch(Keeping(restarts=3)))
        except LaunchError as error:
            ended.append(error)

    thread = Thread(target=start)
    thread.start()
    deadline = time.monotonic() + 60
    while not engine.directory.has(Deployment) and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(seconds)
    stopped = stop(engine.directory)
    thread.join(60)
    assert not thread.is_alive()
    assert (stopped.state, status(engine.directory).state) == ("stopped", "stopped"), ended
    assert not is_supervised(engine.directory)
    assert ended
    with socket.socket() as free:
        assert free.connect_ex(("127.0.0.1", engine.recipe.port)) != 0
    engine.is_("ok")
    assert engine.launch().state == "ready"


def test_what_can_be_read_of_a_start_is_locked(engine: Scripted, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before, a `down` in between found nobody to wait for, said that it was done, and the engine came up."""
    held, write = list[bool](), DeploymentDir.write

    def seen(directory: DeploymentDir, record: Any) -> None:
        if isinstance(record, Deployment):
            held.append(is_supervised(directory))
        write(directory, record)

    monkeypatch.setattr(DeploymentDir, "write", seen)
    engine.is_("ok")
    engine.launch()
    assert held
    assert all(held)


@pytest.mark.parametrize("when", ["1970-01-01T00:00:00.000+00:00", "9999-12-31T23:59:59.999+00:00", "yesterday", ""])
def test_a_clock_that_jumps_neither_stops_nor_starts_anything(engine: Scripted, when: str):
    """Times in records are for people: what is waited for is counted by a clock that only goes on."""
    engine.is_("ok")
    engine.launch()
    now = status(engine.directory)
    future = time.time() + 10 * 365 * 86_400
    os.utime(engine.directory.log, (future, future))
    engine.directory.write(now.model_copy(update={"created_at": when, "changed_at": when}))
    time.sleep(1.0)
    assert status(engine.directory).state == "ready"
    assert [listed.problem for listed in store.list_deployments()] == [None]
    os.utime(engine.directory.log, (0, 0))
    time.sleep(1.0)
    assert status(engine.directory).state == "ready"
    assert stop(engine.directory).state == "stopped"
