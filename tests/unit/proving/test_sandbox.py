"""Code that loops, forks, allocates, fills or calls home is stopped, counted as a failure, and leaves nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from tests.conftest import ROOT
from upright.proving import sandbox
from upright.proving.sandbox import Limits, run_python

QUICK = Limits(wall_seconds=3, cpu_seconds=1, memory_bytes=192 << 20)
BAD = {
    "loops": ("while True: pass", "of CPU|did not end"),
    "sleeps": ("import time; time.sleep(60)", "did not end within 3 s"),
    "forks": ("import os\nwhile True:\n    try: os.fork()\n    except OSError: pass", "did not end|of CPU"),
    "allocates": ("x = []\nwhile True: x.append(bytearray(1 << 26))", "MemoryError"),
    "fills": ("f = open('x', 'wb')\nwhile True: f.write(bytes(1 << 20))", "File too large"),
    "floods": ("while True: print('x' * 1000)", "printed too much"),
    "connects": ("import socket; socket.create_connection(('127.0.0.1', {port}), 2)", "nreachable|no network"),
    "asserts": ("assert 1 == 2, 'not so'", "not so"),
    "exits": ("import sys; sys.exit(3)", "ended with code 3"),
}


def processes(of: int) -> set[str]:
    """What runs anywhere with the mark of that process's sandboxes."""
    found = set()
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if f"UPRIGHT_SANDBOX={of}-".encode() in path.read_bytes():
                found.add(path.parent.name)
        except OSError:
            continue
    return found


@pytest.fixture(params=["namespaces", "limits"])
def isolation(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """What this machine has, and what a machine without namespaces is left with."""
    if request.param == "limits":
        monkeypatch.setattr(sandbox, "isolation", lambda: "limits")
        monkeypatch.setattr(sandbox, "_way", lambda: sandbox._Way((), sys.executable, False))
    elif sandbox.isolation() != "namespaces":
        pytest.skip("this kernel gives no namespaces")
    return str(request.param)


@pytest.mark.parametrize("kind", BAD)
def test_bad_code_is_stopped_and_leaves_nothing(kind: str, isolation: str) -> None:
    if kind == "forks" and isolation == "limits" and os.getuid() == 0:
        pytest.skip("limits on processes do not bind root: it has namespaces")
    code, reason = BAD[kind]
    outcome = run_python({"main.py": code.format(port=9)}, "main.py", QUICK)
    assert not outcome.ok
    assert any(words in outcome.reason for words in reason.split("|")), outcome
    assert outcome.isolation == isolation
    assert outcome.seconds < 6
    assert not processes(os.getpid())
    assert not list(Path(tempfile.gettempdir()).glob(f"upright-sandbox-{os.getpid()}-*"))


def test_what_it_left_behind_on_purpose_is_ended(isolation: str) -> None:
    daemon = (
        "import os, time\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0: time.sleep(60)\n    os._exit(0)"
    )
    assert run_python({"main.py": daemon}, "main.py", QUICK).ok
    assert not processes(os.getpid())


def test_good_code_runs_and_sees_its_files(isolation: str) -> None:
    files = {"main.py": "import helper\nprint(helper.ANSWER)", "helper.py": "ANSWER = 42"}
    outcome = run_python(files, "main.py")
    assert outcome.ok
    assert outcome.output.strip() == "42"


def test_no_file_leaves_the_folder() -> None:
    with pytest.raises(ValueError, match="outside the folder"):
        run_python({"../evil.py": ""}, "../evil.py")


def test_the_sandbox_dies_with_the_climb() -> None:
    """kill -9 of the prover: nothing of the generated code survives it."""
    code = (
        "from upright.proving.sandbox import Limits, run_python\n"
        "run_python({'main.py': 'import time; time.sleep(50)'}, 'main.py', Limits(wall_seconds=60))\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    climb = subprocess.Popen([sys.executable, "-c", code], env=environment)
    deadline = time.monotonic() + 20
    while not processes(climb.pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert processes(climb.pid)
    os.kill(climb.pid, signal.SIGKILL)
    climb.wait()
    while processes(climb.pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not processes(climb.pid)
