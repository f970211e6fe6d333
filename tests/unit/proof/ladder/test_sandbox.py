"""The sandbox as rungs use it: what it tells, what it leaves, which walls it builds. Attacks are in tests/faults."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.hostile import sandboxed
from upright.proof.ladder import sandbox
from upright.proof.ladder.confining import syscalls
from upright.proof.ladder.confining.starts import ENVIRONMENT, confined_starts, interpreters, place_for
from upright.proof.ladder.sandbox import NotIsolatedError, SandboxLimits, contained_code, isolation, run_assertions

TWICE = "def twice(n):\n    return 2 * n"
HEADERS = {
    "x86_64": Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
    "aarch64": Path("/usr/include/asm-generic/unistd.h"),
}


def sessions(leaders: set[int]) -> list[str]:
    """Living processes of these sessions."""
    alive = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, _, session = stat.read_text().rpartition(")")[2].split()[:4]
        except OSError:
            continue
        if int(session) in leaders and state not in "ZX":
            alive.append(stat.parent.name)
    return alive


def left(leaders: set[int], seconds: float = 3) -> list[str]:
    """The same after the kernel had time to end them."""
    deadline = time.monotonic() + seconds
    while (alive := sessions(leaders)) and time.monotonic() < deadline:
        time.sleep(0.02)
    return alive


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> set[int]:
    """Leaders of the sessions that were started."""
    leaders: set[int] = set()
    real = subprocess.Popen

    def start(*arguments: object, **options: object) -> object:
        process = real(*arguments, **options)  # type: ignore[call-overload]
        leaders.add(process.pid)
        return process

    monkeypatch.setattr(sandbox.subprocess, "Popen", start)
    return leaders


@pytest.fixture(params=[way for way in sandboxed.WAYS if way != sandboxed.ALONE])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr(sandbox, "confined_starts", sandbox.confined_starts)
    sandboxed.use(request.param)
    yield str(request.param)
    sandbox._tried_ways.cache_clear()


def test_a_right_answer_holds_and_nothing_is_left(way: str, started: set[int]) -> None:
    outcome = run_assertions({"answer.py": TWICE}, "assert twice(4) == 8", about="answer")
    assert (outcome.ok, outcome.reason, outcome.isolation) == (True, "holds", way)
    assert len(started) >= 3, "a trial of the walls, the code, its judge"
    assert left(started) == []


def test_what_does_not_end_is_ended_and_nothing_is_left(way: str, started: set[int]) -> None:
    sleeps = "import time\ntime.sleep(60)"
    outcome = run_assertions(
        {"answer.py": sleeps}, "assert twice(4) == 8", about="answer", limits=SandboxLimits(wall_seconds=0.5)
    )
    assert outcome.reason == "did not end within 0.5 s"
    assert left(started) == []


def test_every_interpreter_that_is_tried_works(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that runs us lies outside /usr more often than not: pyenv, uv, conda."""
    for candidate in confined_starts():
        if candidate.isolation == "namespaces":
            with monkeypatch.context() as patch:
                patch.setattr(sandbox, "_tried_ways", lambda candidate=candidate: (candidate, ""))
                with contained_code(
                    {"answer.py": "import sys, json, random\ndef where(): return sys.executable"}
                ) as code:
                    assert code.module("answer").where() == candidate.interpreter
    assert os.path.realpath(sys.executable) == interpreters()[0]


def test_only_the_interpreter_is_shown_of_its_prefix(tmp_path: Path) -> None:
    for name in ("bin/python3.99", "lib/python3.99/os.py", "lib/python3.99/site-packages/mine.py", "share/me", "lib64"):
        path = tmp_path / "home/me/.local" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("") if name != "lib64" else path.symlink_to("lib")
    prefix = f"{tmp_path}/home/me/.local"
    place = place_for(f"{prefix}/bin/python3.99")
    assert [path for path in place["shown"] if path.startswith(prefix)] == [f"{prefix}/lib", f"{prefix}/bin/python3.99"]
    assert f"{prefix}/lib/python3.99/site-packages" in place["hidden"]
    assert (f"{prefix}/lib64", "lib") in place["links"]


def test_nothing_runs_where_no_walls_can_be_built(monkeypatch: pytest.MonkeyPatch, started: set[int]) -> None:
    monkeypatch.setattr(sandbox, "confined_starts", lambda: iter(()))
    sandbox._tried_ways.cache_clear()
    try:
        with pytest.raises(NotIsolatedError, match="bwrap is not installed"):
            run_assertions({"answer.py": TWICE}, "assert twice(4) == 8", about="answer")
    finally:
        sandbox._tried_ways.cache_clear()
    assert started == set()


@pytest.mark.parametrize(
    ("kernel", "told"),
    [
        ("namespaces", "namespaces: unshare: Operation not permitted; bubblewrap: "),
        ("5.11", "bubblewrap" if shutil.which("bwrap") else "mount_setattr /new/usr/lib: Function not implemented"),
    ],
)
def test_a_kernel_that_gives_less(kernel: str, told: str) -> None:
    """Really refused: in a container, and by a kernel that is too old for walls of our own."""
    code = (
        "from upright.proof.ladder.sandbox import NotIsolatedError, isolation\n"
        "try: print(isolation())\nexcept NotIsolatedError as error: print(error)"
    )
    argv = [sys.executable, str(ROOT / "tests/hostile/refusing.py"), kernel, sys.executable, "-c", code]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    assert told in subprocess.run(argv, env=environment, capture_output=True, text=True, check=True).stdout


def test_walls_with_a_hole_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """The look from inside: something in the root that does not belong there."""
    holed, modules = next(confined_starts()), sandbox._modules("answering")
    hole = modules[-1][1].replace("    _look(libc, place)", "    place['shown'] = []\n    _look(libc, place)")
    monkeypatch.setattr(sandbox, "confined_starts", lambda: iter([holed]))
    monkeypatch.setattr(sandbox, "_modules", lambda role: [*modules[:-1], (modules[-1][0], hole)])
    sandbox._tried_ways.cache_clear()
    try:
        with pytest.raises(NotIsolatedError, match="the root holds"):
            isolation()
    finally:
        sandbox._tried_ways.cache_clear()


@pytest.mark.parametrize("name", ["/etc/x.py", "../x.py", "a/../../x", "", "a//b", ".", "x\0y"])
def test_a_name_outside_the_folder_is_a_failure(name: str) -> None:
    outcome = run_assertions({name: "", "answer.py": TWICE}, "assert twice(4) == 8", about="answer")
    assert not outcome.ok
    assert "is no name inside the folder" in outcome.reason


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ({"answer.py": "x" * (1 << 21)}, "2,097,152 characters of files are too many"),
        ({"a": "", "a/b": "", "answer.py": TWICE}, "FileExistsError|NotADirectoryError"),
        ({"a\ud800b": "", "answer.py": TWICE}, "UnicodeEncodeError"),
        ({"answer.py": "def twice(n):\n    return n"}, "AssertionError: assert twice(4) == 8"),
        ({"answer.py": "def thrice(n):\n    return n"}, "NameError: name 'twice' is not defined"),
        ({"answer.py": "x = 1 / 0"}, "ZeroDivisionError: division by zero"),
        ({"answer.py": "def twice(n):\n    raise OSError('\\x1b[2J away')"}, "OSError: [2J away"),
        ({"other.py": ""}, "ModuleNotFoundError: No module named 'answer'"),
        ({"answer.py": "def twice(n):\n    return 'x' * (1 << 21)"}, "bytes are too many"),
        ({"answer.py": "def twice(n):\n    return object()"}, "only plain data is compared"),
    ],
)
def test_what_is_wrong_is_said(files: dict[str, str], reason: str) -> None:
    outcome = run_assertions(files, "assert twice(4) == 8", about="answer")
    assert not outcome.ok
    assert any(part in outcome.reason for part in reason.split("|")), outcome


def test_objects_stay_there_and_plain_data_comes_back() -> None:
    basket = """
class Basket:
    def __init__(self, name, size=1): self.lines, self.name = [], name
    def add(self, other): self.lines.append(other); return self
    def first(self): return self.lines[0].name
    def mixed(self): return {"a": (1, 2.5, None, True), 3: [b"x", {4}, frozenset({5}), 10**40, "ä"]}
    def wrong(self): raise KeyError("no such line")
"""
    assertions = """
from shop import Basket
import shop
one, two = Basket("one", size=2), shop.Basket(name="two")
assert one.add(two).first() == "two"
assert one.mixed() == {"a": (1, 2.5, None, True), 3: [b"x", {4}, frozenset({5}), 10**40, "ä"]}
assert one.name == "one"
try:
    one.wrong()
except LookupError as error:
    assert "no such line" in str(error)
else:
    raise AssertionError("nothing was raised")
"""
    outcome = run_assertions({"shop.py": basket}, assertions)
    assert outcome.ok, outcome.reason


def test_assertions_that_ask_nothing_are_refused() -> None:
    with pytest.raises(ValueError, match="use nothing of the code"):
        run_assertions({"answer.py": TWICE}, "assert sorted([2, 1]) == [1, 2]", about="answer")


def test_the_sandbox_dies_with_the_climb() -> None:
    """kill -9 of the prover: nothing of the generated code survives it."""
    code = (
        "from upright.proof.ladder.sandbox import contained_code\n"
        "with contained_code({'answer.py': 'import time'}) as code:\n"
        "    print('there', flush=True)\n"
        "    code.module('answer').time.sleep(50)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    climb = subprocess.Popen([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE)
    assert climb.stdout is not None
    assert climb.stdout.readline() == b"there\n"
    leaders = {int(pid) for pid in Path(f"/proc/{climb.pid}/task/{climb.pid}/children").read_text().split()}
    assert len(leaders) == 1
    assert len(sessions(leaders)) == 3, "one who waits, the first of the place, the code"
    os.kill(climb.pid, signal.SIGKILL)
    climb.wait()
    climb.stdout.close()
    assert left(leaders, seconds=20) == []


@pytest.mark.parametrize("machine", HEADERS)
def test_numbers_of_system_calls_are_those_of_the_kernel(machine: str) -> None:
    if not HEADERS[machine].exists():
        pytest.skip("no headers of the kernel here")
    text = HEADERS[machine].read_text()
    numbers = {name: int(number) for name, number in re.findall(r"#define __NR(?:3264)?_(\w+) (\d+)", text)}
    column = syscalls._MACHINES[machine][1]
    ours = {name: pair[column] for name, pair in syscalls._DENIED.items() if pair[column] is not None}
    ours["clone"] = syscalls._CLONE[machine]
    assert {name: number for name, number in ours.items() if numbers.get(name, number) != number} == {}
    assert len(set(ours) & set(numbers)) > 60


def test_a_filter_ends_in_a_verdict_on_every_path() -> None:
    for machine in syscalls._MACHINES:
        program = syscalls.program(machine)
        assert len(program) % 8 == 0
        steps = [program[at : at + 8] for at in range(0, len(program), 8)]
        assert len(steps) < 4_096
        for place, step in enumerate(steps):
            code, if_true, if_false = step[0], step[2], step[3]
            if code in (0x15, 0x25, 0x45):
                assert place + 1 + max(if_true, if_false) < len(steps)
        assert steps[-1][0] == 0x06


def test_nothing_of_our_environment_is_handed_on() -> None:
    source = "import os\ndef names(): return dict(os.environ)"
    with contained_code({"answer.py": source}) as code:
        seen = code.module("answer").names()
    assert {name: text for name, text in seen.items() if name not in ("LC_CTYPE", "PWD")} == ENVIRONMENT
