"""Every write of the store and of a supervisor made to fail once, in turn; and a real disk that is full.

Nothing that was acknowledged is lost, the engine still serves, and the next command tells the truth.
"""

from __future__ import annotations

import errno
import importlib
import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.disk import faults_library
from tests.faults.test_launch_states import Scripted
from upright.base.errors import LaunchError
from upright.facts import store
from upright.facts.records.deployment import Deployment, Keeping
from upright.serving.launch import status, stop
from upright.serving.launch.processes import alive

ROOT = Path(__file__).parent.parent.parent
launching = importlib.import_module("upright.serving.launch.launch")  # the room has a function of that name
KEEPING = Keeping(restarts=1, question_seconds=60, hung_seconds=10, silent_seconds=60)


@pytest.mark.slow
def test_every_write_of_the_store_fails_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    folder = tmp_path / "home"
    environment = {
        **os.environ,
        "PYTHONPATH": f"{ROOT}:{ROOT / 'src'}",
        "LD_PRELOAD": str(faults_library()),
        "FAULT_UNDER": str(folder),
    }
    argv = [sys.executable, "-m", "tests.disk.store_sweep", str(folder)]
    done = subprocess.run(argv, capture_output=True, text=True, env=environment, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["wrong"] == []
    assert told["writes"] > 40
    with capsys.disabled():
        print(f"\n{told['writes']} writes of the store, {told['lives']} lives with one that failed: nothing lost")


class Lives:
    """Deployments whose supervisors meet a fault each."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        monkeypatch.setenv("UPRIGHT_HOME", str(folder / "home"))
        self._library = str(faults_library())
        self.started = self.failed = 0
        self._faults: dict[Path, dict[str, str]] = {}
        plain = launching._supervisors_environment
        monkeypatch.setattr(launching, "_supervisors_environment", lambda d: {**plain(d), **self._faults[d.path]})

    def writes(self) -> int:
        assert self.life(0, 0) == []
        return len((self.folder / "0-0/seen").read_text().splitlines())

    def life(self, number: int, code: int) -> list[str]:
        """Up, a crash, up again, down, while that write of the supervisor fails; what was not as it should be."""
        place = self.folder / f"{number}-{code}"
        place.mkdir()
        engine = Scripted(place)
        engine.is_("ok")
        self._faults[engine.directory.path] = {
            "LD_PRELOAD": self._library, "FAULT_UNDER": str(engine.directory.path), "FAULT_AT": str(number),
            "FAULT_ERRNO": str(code), "FAULT_TOLD": str(place / "told"), "FAULT_SEEN": str(place / "seen"),
        }  # fmt: skip
        try:
            wrong = list(self._lived(engine))
        except Exception as error:  # one life's trouble is told beside the others
            wrong = [repr(error), (engine.directory.path / "supervisor.log").read_text()[-1500:]]
        finally:
            if engine.directory.has(Deployment):
                stop(engine.directory)
        failed = (place / "told").read_text().strip() if (place / "told").exists() else ""
        self.failed += bool(failed)
        self.started += engine.directory.read(Deployment).reason != "its supervisor did not start"
        return [f"{failed} ({errno.errorcode.get(code)}): {words}" for words in wrong]

    def _lived(self, engine: Scripted):
        try:
            first = engine.launch(KEEPING)
        except LaunchError:
            now = status(engine.directory)
            if (now.state, now.reason) != ("failed", "its supervisor did not start"):
                yield f"not started, and it is {now.state}, {now.reason}"
            return
        assert first.process is not None
        os.kill(first.process.pid, signal.SIGKILL)
        _until_served(engine, first)
        now = status(engine.directory)
        if (now.state, now.restarts) != ("ready", 1) or not alive(now.process):
            yield f"it serves, and status says {now.state}, {now.reason}"
        if not alive(now.supervisor):
            yield "its supervisor is gone"
        ended = stop(engine.directory)
        if (ended.state, ended.reason) != ("stopped", "stopped on request") or alive(now.process):
            yield f"stopped, and it is {ended.state}, {ended.reason}"
        yield from (str(found) for found in store.check(engine.directory.path) if found.severity == "problem")


def _until_served(engine: Scripted, before: Deployment, seconds: float = 60) -> None:
    """A new engine answers, and its supervisor's next try to write has had its time."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        now = status(engine.directory)
        if now.state == "ready" and now.process != before.process and _answers(engine):
            return
        time.sleep(0.1)
    raise AssertionError(f"not served again; the record says {now.state}: {now.reason}")


def _answers(engine: Scripted) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{engine.recipe.port}/health", timeout=2) as reply:
            return reply.status == 200
    except OSError:
        return False


@pytest.mark.engine
@pytest.mark.parametrize("step", [12, pytest.param(1, marks=(pytest.mark.slow, pytest.mark.timeout(900)))])
def test_every_write_of_a_supervisor_fails_once(tmp_path, monkeypatch, capsys, step: int):
    lives = Lives(tmp_path, monkeypatch)
    writes = lives.writes()
    codes = (errno.ENOSPC, errno.EIO)
    chosen = [(number, codes[number % 2]) for number in range(1, writes + 1, step)] if step > 1 else None
    chosen = chosen or [(number, code) for number in range(1, writes + 1) for code in codes]
    with ThreadPoolExecutor(4) as workers:
        wrong = [words for found in workers.map(lambda fault: lives.life(*fault), chosen) for words in found]
    assert wrong == []
    assert lives.failed >= 0.8 * len(chosen), "a life has more writes or fewer, by a few; most must have met theirs"
    assert lives.started >= len(chosen) - 1, "only a supervisor that gets no lock does not start"
    with capsys.disabled():
        print(f"\n{writes} writes of a supervisor, {lives.failed} lives with one that failed: each served again")


@pytest.mark.engine
@pytest.mark.slow
def test_an_engine_serves_on_while_its_disk_is_full(tmp_path: Path, llama_server: Path, tiny_model: Path):
    """A real one on a real small disk. What `ps` says is true, or says that it is not known yet."""
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'src'}", "UPRIGHT_LLAMA_SERVER": str(llama_server)}
    apart = ["unshare", "--mount", "--propagation", "private"]
    apart = apart if os.geteuid() == 0 else [*apart, "--user", "--map-root-user"]
    argv = [*apart, sys.executable, "-m", "tests.disk.full", str(tmp_path), str(tiny_model)]
    done = subprocess.run(argv, capture_output=True, text=True, env=environment, timeout=170, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    told = json.loads(done.stdout.splitlines()[-1])
    unwritten = "its engine has ended, and its supervisor has not written yet what came next"
    gone = "its supervisor is gone and left no reason; its engine was ended too"
    assert told == {
        "served on a full disk": True,
        "ps on a full disk": [0, "ready", None],
        "served without a reserve": True,
        "ps without a reserve": [0, "degraded", unwritten],
        "its supervisor goes on": True,
        "ps with room again": [0, "ready", None],
        "down on a full disk": ["stopped", "stopped on request"],
        "served after down": False,
        "ps after down": [0, "failed", gone],
    }
