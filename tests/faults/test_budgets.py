"""A budget binds: `prove`, `bench` and `replay` end in time whatever the peer does, and leave nothing running."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import TINY_MODEL, Upright
from tests.hostile_server import SLOW_OR_HOSTILE, hostile
from tests.ports import free_port
from tests.turning_engine import program_of
from upright.base.errors import UprightError
from upright.facts.store import DeploymentDir
from upright.proof.benchmark.bench import bench
from upright.proof.benchmark.endpoints import KnownEndpoint
from upright.proof.benchmark.load import LoadTarget
from upright.proof.benchmark.sweep import SweepRequest, SweepWatch
from upright.proof.benchmark.workload import workload

BUDGET_SECONDS = 3.0
LATEST_SECONDS = 1.1 * BUDGET_SECONDS + 5
_UPRIGHT = [sys.executable, "-m", "upright"]


@pytest.mark.timeout(60)
@pytest.mark.parametrize("to_streams", [False, True], ids=["all", "streams"])
@pytest.mark.parametrize("behaviour", ["byte a second", "half open", "comments"])
def test_a_bench_ends_with_its_budget(behaviour: str, to_streams: bool, tmp_path: Path) -> None:
    """Before, what words cost was asked for ten minutes a question."""
    row = workload("short").model_copy(update={"concurrency": (1, 2)})
    asked = SweepRequest(row, tuple(row.shapes()), 1, budget_seconds=1.0)
    began = time.monotonic()
    with hostile(behaviour, to_streams=to_streams) as url, contextlib.suppress(UprightError):
        known = KnownEndpoint(LoadTarget(url, "m"), "m", metrics_path="/metrics")
        bench([known], asked, DeploymentDir(tmp_path), SweepWatch())
    assert time.monotonic() - began < 1.1 * 1.0 + 5


@pytest.fixture(scope="module", params=["prove", "bench"])
def verb(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def start_seconds(verb: str, tmp_path_factory: pytest.TempPathFactory) -> float:
    """What it takes here until it finds that nobody listens: a busy machine's imports are no broken budget."""
    environment = {**os.environ, "UPRIGHT_HOME": str(tmp_path_factory.mktemp("home"))}
    words = [*_UPRIGHT, verb, "--base-url", "http://127.0.0.1:9", "--model", "m", "--budget", "3s"]
    began = time.monotonic()
    assert subprocess.run(words, env=environment, capture_output=True, timeout=120, check=False).returncode == 2
    return time.monotonic() - began


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("to_streams", [False, True], ids=["all", "streams"])
@pytest.mark.parametrize("behaviour", SLOW_OR_HOSTILE)
def test_a_command_ends_with_its_budget(
    verb: str, start_seconds: float, behaviour: str, to_streams: bool, tmp_path: Path
) -> None:
    """Before, `bench --budget 20s` and `prove --budget 1m` waited minutes for a server that sends a byte a second."""
    environment = {**os.environ, "UPRIGHT_HOME": str(tmp_path), "NO_COLOR": "1"}
    with hostile(behaviour, to_streams=to_streams) as url:
        words = [*_UPRIGHT, verb, "--base-url", url, "--model", "m", "--budget", f"{BUDGET_SECONDS:g}s"]
        began = time.monotonic()
        done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=120, check=False)
        took = time.monotonic() - began
    assert took - start_seconds < LATEST_SECONDS, done.stderr
    if done.returncode == 0:  # a whole answer came, and no stream: no more than that stands
        assert to_streams
        assert "stands, up to boot" in done.stdout
    assert done.returncode in (0, 1, 2)
    assert "Traceback" not in done.stderr


@pytest.fixture(scope="module")
def claim(tmp_path_factory: pytest.TempPathFactory, llama_server: Path) -> Path:
    """A bundle of what the real engine does, with a soak that was passed."""
    home = tmp_path_factory.mktemp("author")
    environment = {**os.environ, "UPRIGHT_HOME": str(home), "UPRIGHT_LLAMA_SERVER": str(llama_server)}

    def did(*words: str) -> None:
        subprocess.run([*_UPRIGHT, *words], env=environment, check=True, capture_output=True, timeout=300)

    did("up", str(TINY_MODEL), "--context", "1k", "--port", str(free_port()))
    try:
        did("prove", "--to", "smoke")
        load = ("--concurrency", "1", "--prompt-tokens", "64", "--output-tokens", "16", "--requests", "4")
        did("bench", "--workload", "short", *load, "--repeats", "1", "--budget", "30s", "--no-self-test")
    finally:
        did("down")
    did("bundle", "--statement", "-o", str(home / "claim.json"))
    return home / "claim.json"


@contextlib.contextmanager
def replaying(claim: Path, llama_server: Path, folder: Path, behaviour: str, budget: str) -> Iterator[Replay]:
    turn = folder / "turned"
    program = program_of(folder, llama_server, behaviour, turn)
    environment = {**os.environ, "UPRIGHT_HOME": str(folder / "home"), "UPRIGHT_LLAMA_SERVER": str(program)}
    words = ["replay", str(claim), "--model", str(TINY_MODEL), "--port", str(free_port()), "--yes", "--budget", budget]
    with subprocess.Popen(
        [*_UPRIGHT, *words], env={**environment, "NO_COLOR": "1"}, cwd=folder, text=True,
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True,
    ) as process:  # fmt: skip
        try:
            yield Replay(process, turn, folder / "home")
        finally:
            process.kill()


class Replay:
    """A replay under way, and the lines that it says."""

    def __init__(self, process: subprocess.Popen[str], turn: Path, home: Path) -> None:
        self.process, self.turn, self.home = process, turn, home
        self.said: list[str] = []

    def begin(self) -> None:
        """Until it has divided its budget."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.said.append(line)
            if "for each" in line:
                break
        threading.Thread(target=lambda: self.said.extend(self.process.stderr or ()), daemon=True).start()

    def state(self, upright: Upright) -> str:
        done = upright("ps", "--json", UPRIGHT_HOME=str(self.home))
        return str(json.loads(done.stdout)[0]["state"])


@pytest.mark.slow
@pytest.mark.engine
@pytest.mark.timeout(900)
@pytest.mark.parametrize("behaviour", SLOW_OR_HOSTILE)
def test_a_replay_ends_with_its_budget(
    behaviour: str, claim: Path, llama_server: Path, tmp_path: Path, upright: Upright
) -> None:
    with replaying(claim, llama_server, tmp_path, behaviour, f"{BUDGET_SECONDS:g}s") as replay:
        replay.begin()
        replay.turn.touch()
        began = time.monotonic()
        code = replay.process.wait(120)
        took = time.monotonic() - began
        assert took < LATEST_SECONDS, "".join(replay.said)
        assert code in (0, 1, 2)
        assert replay.state(upright) == "stopped"


@pytest.mark.slow
@pytest.mark.engine
@pytest.mark.timeout(300)
@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "SIGTERM"])
def test_a_replay_that_is_told_to_end_takes_its_engine_along(
    sign: signal.Signals, claim: Path, llama_server: Path, tmp_path: Path, upright: Upright
) -> None:
    """Before, its engine stayed up."""
    with replaying(claim, llama_server, tmp_path, "byte a second", "60s") as replay:
        replay.begin()
        replay.turn.touch()  # else it is done before it is told to
        time.sleep(2)
        replay.process.send_signal(sign)
        assert replay.process.wait(30) == 130, "".join(replay.said)
        assert replay.state(upright) == "stopped"
