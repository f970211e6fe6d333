"""A model's answer: code that is run to judge it, written by a model or by a server that pretends to be one.

Each attack is made by real code behind the real walls, as root and as an ordinary user whom the test makes, in our own
namespaces, in bubblewrap, and in the namespaces without the filter of system calls.
"""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.hostile.answer import ATTACKS
from tests.hostile.sandboxed import ALONE, WAYS
from tests.person import as_person, give, home_folder
from tests.scripted.engine import ScriptedEngine
from upright.proof.ladder import sandbox
from upright.proof.ladder.prompts import prompt_set
from upright.proof.ladder.sandbox import SandboxLimits, contained_code, isolation, run_assertions

NOT_PROMISED = (
    "that the kernel itself has no hole: the walls are Linux namespaces and a filter of system calls, not a machine",
    "that nothing of the machine can be guessed: its time, its kernel's version, its processors' kind and the path and "
    "version of the Python that runs the code are seen, and libraries of the system can be read",
    "a bound on the number of files (1,024 a folder) where bubblewrap builds the walls: it has no option for it; their "
    "bytes are bounded there too",
    "that right values are thought out and not remembered: whatever returns them passes",
)
QUICK = SandboxLimits(wall_seconds=4, cpu_seconds=1, memory_bytes=256 << 20)
HOSTILE = (ROOT / "tests/hostile/answer.py").read_text()


def attacks(*families: str) -> list[str]:
    return [name for name, (family, _) in ATTACKS.items() if family in families]


@pytest.fixture(scope="module", params=["root", "person"])
def told(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Way -> what the code told of every attack, and what was harmed; once, whoever of pytest's workers asks first."""
    kept = tmp_path_factory.getbasetemp().parent / f"told-{request.param}-{os.environ.get('PYTEST_XDIST_TESTRUNUID')}"
    with kept.open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        if text := file.read():
            return json.loads(text)
        with home_folder() as home:
            told = _told(str(request.param), home)
        if "PYTEST_XDIST_TESTRUNUID" in os.environ:
            file.write(json.dumps(told))
        return told


def _told(who: str, home: Path) -> dict[str, Any]:
    if who == "root" and os.geteuid() != 0:
        pytest.skip("only root can try as root")
    argv = [sys.executable, "-m", "tests.hostile.world", *WAYS]
    if who == "person":
        give(home)
        argv = as_person(argv, home)
    ended = subprocess.run(argv, capture_output=True, text=True, check=False, env=_environment(home), timeout=120)
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


def _environment(home: Path) -> dict[str, str]:
    names = {name: text for name, text in os.environ.items() if not name.startswith(("UPRIGHT_", "PYTEST_"))}
    paths = f"{ROOT}:{ROOT}/src"
    return {**names, "HOME": str(home), "UPRIGHT_TEST_SECRET": "hush-hush", "PYTHONPATH": paths, "NO_COLOR": "1"}


def reached(told: dict[str, Any], attack: str) -> dict[str, str]:
    """Way -> what was reached there."""
    return {way: seen["inside"][attack][1] for way, seen in told.items() if way != ALONE and seen["inside"][attack][0]}


class TestWalls:
    @pytest.mark.promise("it reads nothing of the person's, of other users', of the machine's settings")
    @pytest.mark.parametrize("attack", attacks("read"))
    def test_nothing_is_read(self, told: dict[str, Any], attack: str) -> None:
        assert reached(told, attack) == {}

    @pytest.mark.promise("it writes, renames and removes nothing outside its own folders")
    @pytest.mark.parametrize("attack", attacks("write"))
    def test_nothing_is_written(self, told: dict[str, Any], attack: str) -> None:
        assert reached(told, attack) == {}

    @pytest.mark.promise("it reaches no network, no socket, no shared memory, no device, no open file of another")
    @pytest.mark.parametrize("attack", attacks("reach"))
    def test_nobody_is_reached(self, told: dict[str, Any], attack: str) -> None:
        assert reached(told, attack) == {}

    @pytest.mark.promise("it sees no process but its own, and starts none")
    @pytest.mark.parametrize("attack", attacks("processes"))
    def test_no_process_is_seen_or_started(self, told: dict[str, Any], attack: str) -> None:
        assert reached(told, attack) == {}

    @pytest.mark.promise("it has no right and gains none: no capability, no mount, no namespace")
    @pytest.mark.parametrize("attack", attacks("rights"))
    def test_no_right_is_gained(self, told: dict[str, Any], attack: str) -> None:
        assert reached(told, attack) == {}

    @pytest.mark.promise("system calls that code which only computes has no need of are refused")
    @pytest.mark.parametrize("attack", attacks("kernel"))
    def test_the_kernel_is_not_asked(self, told: dict[str, Any], attack: str) -> None:
        assert reached(told, attack) == {}

    @pytest.mark.promise("memory, bytes on disk and in /dev/shm, files, threads, processor time and time are bounded")
    @pytest.mark.parametrize("attack", attacks("bounds"))
    def test_what_can_be_used_up_is_bounded(self, told: dict[str, Any], attack: str) -> None:
        assert reached(told, attack) == {}

    @pytest.mark.promise("it writes, renames and removes nothing outside its own folders")
    def test_the_world_is_as_it_was(self, told: dict[str, Any]) -> None:
        assert {way: seen["harm"] for way, seen in told.items()} == {way: [] for way in WAYS}

    @pytest.mark.promise("namespaces hold without the filter of system calls")
    @pytest.mark.parametrize(
        "attack",
        [
            *attacks("read", "write"), "socket_with_a_path", "socket_without_a_path", "port_of_this_machine",
            "packet_to_a_neighbour", "shared_segment", "terminal", "see_others",
            "see_the_prover", "signal_the_prover", "trace_the_prover", "handle_of_the_prover", "become_root", "is_root",
            "has_capabilities", "mount_something", "remount_usr", "unmount", "fill_disk", "fill_shared_memory",
        ],
    )  # fmt: skip
    def test_walls_hold_alone(self, told: dict[str, Any], attack: str) -> None:
        assert not told[ALONE]["inside"][attack][0], told[ALONE]["inside"][attack]


@pytest.mark.promise("system calls that code which only computes has no need of are refused")
def test_system_calls_by_another_door_end_it() -> None:
    """int 0x80 has numbers of its own, which no list of x86-64's would name."""
    if os.uname().machine != "x86_64":
        pytest.skip("only x86-64 has this door")
    source = """
import ctypes, mmap
def getpid():
    page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(bytes.fromhex("b814000000cd80c3"))
    return ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))()
"""
    outcome = run_assertions({"answer.py": source}, "assert getpid() > 0", about="answer")
    assert outcome.reason in ("ended before it was judged, with code 159", "ended before it was judged, with code 139")


@pytest.mark.promise("memory, bytes on disk and in /dev/shm, files, threads, processor time and time are bounded")
class TestBounds:
    @pytest.mark.parametrize(
        ("body", "reason"),
        [
            ("while True: pass", "used more than 1 s of CPU|did not end within 4 s"),
            ("import time; time.sleep(60)", "did not end within 4 s"),
            ("kept = []\n    while True: kept.append(bytearray(1 << 24))", "MemoryError|did not end within 4 s"),
            ("f = open('x', 'wb')\n    while True: f.write(bytes(1 << 20))", "File too large"),
            ("while True: print('x' * 10_000)", "used more than 1 s of CPU|did not end within 4 s"),
        ],
        ids=["loops", "sleeps", "allocates", "fills", "floods"],
    )
    def test_what_never_ends_is_ended(self, body: str, reason: str) -> None:
        limits = SandboxLimits(wall_seconds=1.5) if "sleep" in body else QUICK
        outcome = run_assertions(
            {"answer.py": f"def f():\n    {body}"}, "assert f() == 1", about="answer", limits=limits
        )
        assert not outcome.ok
        assert any(words.replace("4 s", f"{limits.wall_seconds:g} s") in outcome.reason for words in reason.split("|"))
        assert outcome.seconds < 8

    def test_the_number_of_files_is_bounded(self) -> None:
        if isolation() == "bubblewrap":
            pytest.skip("bubblewrap cannot bound it, which is not promised")
        with contained_code({"answer.py": HOSTILE}) as subject, pytest.raises(Exception, match="No space left"):
            subject.module("answer").many_files({})


# An answer that is wrong, and what it does about that. `twice(4) == 8` and `twice(5) == 10` are asserted.
YES = "class Yes(BASE):\n    def __eq__(self, other): return True\n    __ne__ = lambda self, other: False\n"
WRITE_ALL = """
import os
def to_all(text):
    for number in range(256):
        try: os.write(number, text)
        except OSError: pass
"""
WRONG = "\ndef twice(n): return n\n"
LIES = {
    "ends before": "raise SystemExit(0)",
    "ends in the call": "def twice(n): raise SystemExit(0)",
    "ends hard before": "import os; os._exit(0)",
    "ends hard in the call": "import os\ndef twice(n): os._exit(0)",
    "ends at the end": f"import atexit, os\natexit.register(os._exit, 0){WRONG}",
    "interrupts": "def twice(n): raise KeyboardInterrupt",
    "says it is asserted": "def twice(n): raise AssertionError",
    "stops iterating": "def twice(n): raise StopIteration(8)",
    "equals everything": f"{YES.replace('BASE', 'object')}def twice(n): return Yes()",
    "a number that equals everything": f"{YES.replace('BASE', 'int')}def twice(n): return Yes(n)",
    "a text that equals everything": f"{YES.replace('BASE', 'str')}def twice(n): return Yes(n)",
    "a list that equals everything": f"{YES.replace('BASE', 'list')}def twice(n): return Yes([n])",
    "is true": """
class T:
    def __bool__(self): return True
    def __eq__(self, other): return self
def twice(n): return T()
""",
    "has every name": "def __getattr__(name): return lambda *a: __import__('unittest.mock').mock.ANY",
    "equals by a mock": "from unittest.mock import ANY\ndef twice(n): return ANY",
    "patches builtins": f"""
import builtins
builtins.AssertionError = type('A', (Exception,), {{}})
builtins.compile = builtins.exec = lambda *a, **k: None
{WRONG}""",
    "patches numbers": "import ctypes\ndef twice(n):\n    ctypes.memmove(id(8) + 24, id(0) + 24, 4)\n    return 0",
    "a thread that ends all": """
import os, threading, time
threading.Timer(0.05, os._exit, (0,)).start()
def twice(n):
    time.sleep(1)
    return 8
""",
    "a child that answers": "import os\ndef twice(n):\n    if os.fork() == 0: os._exit(0)\n    return 0",
    "a child that stays": f"import os\nif os.fork(): os._exit(0){WRONG}",
    "floods what is printed": f"import sys\nfor _ in range(200): print('PASSED ' * 1000, file=sys.stderr){WRONG}",
    "floods the channel": f"{WRITE_ALL}to_all(b'\\x00\\x00\\x00\\x10' * 1000){WRONG}",
    "an endless frame": f"{WRITE_ALL}to_all(b'\\xff\\xff\\xff\\xff'){WRONG}",
    "frames nobody asked for": f"""{WRITE_ALL}
frame = b'{{"value": true}}'
to_all((len(frame).to_bytes(4, 'big') + frame) * 9)
{WRONG}""",
    "nested deeper than anything": f"{WRITE_ALL}frame = b'[' * 60_000\nto_all(len(frame).to_bytes(4, 'big') + frame)",
    "patches the channel": f"""
import json, sys
json.dumps = lambda *a, **k: '{{"word": 1, "value": {{"kept": 0}}}}'
sys.modules['upright.proof.ladder.confining.plain'].encode = lambda *a: True
{WRONG}""",
    "rewrites the loop": f"""
import sys
frame = sys._getframe()
while frame:
    frame.f_globals['_done'] = lambda *a: True
    frame = frame.f_back
{WRONG}""",
    "kills its parent": f"""
import os
for pid in (1, os.getppid()):
    for number in (9, 15, 2):
        try: os.kill(pid, number)
        except OSError: pass
{WRONG}""",
    "kills everybody": "import os\ndef twice(n):\n    os.kill(-1, 9)\n    return n",
    "closes everything": f"import os\nos.closerange(0, 256){WRONG}",
    "crashes": "import ctypes\ndef twice(n): return ctypes.string_at(0)",
    "recurses": "import sys\nsys.setrecursionlimit(10**9)\ndef twice(n): return twice(n)",
    "errors that lie": "class E(Exception):\n    def __str__(self): raise SystemExit(0)\ndef twice(n): raise E",
    "keys that collide": "def twice(n): return {k * (2**61 - 1): 0 for k in range(30_000)}",
    "is no Python": "I would rather not.",
}
HONEST = {
    "plain": "def twice(n): return 2 * n",
    "prints": "print('hello')\ndef twice(n):\n    print(n)\n    return n + n",
    "threads": """
import threading
def twice(n):
    out = []
    thread = threading.Thread(target=out.append, args=(2 * n,))
    thread.start()
    thread.join()
    return out[0]
""",
    "imports": """
import bisect, collections, copy, dataclasses, datetime, decimal, fractions, functools, heapq, itertools, json, math
import operator, random, re, statistics, string, textwrap, typing, zoneinfo
def twice(n): return 2 * n
""",
    "a loop of events": "import asyncio\ndef twice(n): return asyncio.run(asyncio.sleep(0, 2 * n))",
    "an enumeration": """
import enum, sys
class E(enum.IntEnum):
    A = 8
    B = 10
def twice(n): return E(2 * n)
if __name__ == '__main__':
    sys.exit(1)
""",
    "files": """
import tempfile
def twice(n):
    with tempfile.TemporaryFile() as file:
        file.write(bytes(n))
        file.seek(0)
        return 2 * len(file.read())
""",
}
ASSERTIONS = "assert twice(4) == 8\nassert twice(5) == 10"


@pytest.mark.promise("it is judged by another process, and cannot make a wrong answer pass")
class TestJudge:
    @pytest.mark.parametrize("lie", LIES)
    def test_a_wrong_answer_fails_whatever_it_does(self, lie: str) -> None:
        outcome = run_assertions({"answer.py": LIES[lie]}, ASSERTIONS, about="answer", limits=QUICK)
        assert not outcome.ok, outcome
        assert outcome.reason.isprintable()
        assert outcome.seconds < 8

    @pytest.mark.parametrize("lie", ["equals everything", "ends hard in the call", "patches the channel"])
    def test_files_of_a_task_too(self, lie: str) -> None:
        assert not run_assertions({"sums.py": LIES[lie]}, f"from sums import twice\n{ASSERTIONS}", limits=QUICK).ok

    def test_a_module_of_its_own_is_not_ours(self) -> None:
        """A file named as one that the assertions import from Python."""
        files = {"math.py": "def sqrt(n): return 99", "sums.py": "def f(): return 99"}
        assert not run_assertions(files, "import math\nfrom sums import f\nassert f() == math.sqrt(4)").ok

    def test_the_word_is_not_where_the_code_is(self, monkeypatch: pytest.MonkeyPatch) -> None:
        word = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
        monkeypatch.setattr(sandbox.secrets, "token_hex", lambda size: word)
        search = f"{HOSTILE}\ndef f(): return word_in_memory({word[::-1]!r})\n"
        assert run_assertions({"answer.py": search}, "assert f() == []", about="answer").ok
        seen = f"{search}\nKEPT = {{'here': {word!r}}}\n"
        outcome = run_assertions({"answer.py": seen}, "assert f() == []", about="answer")
        assert not outcome.ok, "what is there would have been found"

    def test_even_the_right_word_says_nothing_from_there(self, monkeypatch: pytest.MonkeyPatch) -> None:
        word = "0" * 64
        monkeypatch.setattr(sandbox.secrets, "token_hex", lambda size: word)
        told = json.dumps({"word": word})
        for after in ("os._exit(0)", "raise SystemExit(0)", "pass"):
            lie = f"{WRITE_ALL}to_all({told!r}.encode() + b'\\n')\nprint({told!r}, flush=True)\n{after}"
            assert not run_assertions({"answer.py": lie}, ASSERTIONS, about="answer", limits=QUICK).ok

    @pytest.mark.parametrize("kind", HONEST)
    def test_a_right_answer_holds(self, kind: str) -> None:
        assert run_assertions({"answer.py": HONEST[kind]}, ASSERTIONS, about="answer").reason == "holds"


class _Plants(ScriptedEngine):
    """Right answers, whose code also plants a line."""

    plants: tuple[Path, ...] = ()

    def _message(self, body: dict[str, Any]) -> dict[str, Any]:
        message = super()._message(body)
        text = str(message.get("content") or "")
        paths = [*map(str, self.plants), "~/.bashrc"]
        attack = (
            "import os\nfor path in PATHS:\n    try:\n        with open(os.path.expanduser(path), 'a') as f: "
            "f.write('echo planted\\n')\n    except OSError: pass\n"
        ).replace("PATHS", repr(paths))
        return {**message, "content": text.replace("```python\n", f"```python\n{attack}", 1)}


def _prove(url: str, home: Path, *before: str) -> subprocess.CompletedProcess[str]:
    words = ["prove", "--base-url", f"{url}/v1", "--model", "tiny-kimi", "--prompts", "tiny", "--to", "smoke"]
    words += ["-o", str(home / "evidence.json")]
    argv = as_person([*before, sys.executable, "-m", "upright", *words], home)
    environment = {**_environment(home), "UPRIGHT_HOME": str(home / "upright")}
    return subprocess.run(argv, capture_output=True, text=True, check=False, env=environment, timeout=120, cwd="/")


@pytest.fixture
def home() -> Iterator[Path]:
    with home_folder() as folder:
        (folder / ".bashrc").write_text("# mine\n")
        give(folder)
        yield folder
        assert (folder / ".bashrc").read_text() == "# mine\n"


@pytest.mark.promise("it writes, renames and removes nothing outside its own folders")
def test_prove_against_a_hostile_server_plants_nothing(home: Path) -> None:
    engine = _Plants(prompt_set("tiny"))
    engine.plants = (home / ".bashrc",)
    with engine.serving() as url:
        ended = _prove(url, home)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "stands" in ended.stdout
    assert "not run" not in ended.stdout


@pytest.mark.promise("where the kernel gives no walls it is not run, and that is said")
def test_without_walls_nothing_is_run(home: Path) -> None:
    engine = _Plants(prompt_set("tiny"))
    engine.plants = (home / ".bashrc",)
    refusing = [sys.executable, str(ROOT / "tests/hostile/refusing.py"), "namespaces"]
    with engine.serving() as url:
        ended = _prove(url, home, *refusing)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    row = next(line for line in ended.stdout.splitlines() if line.startswith("smoke"))
    assert ", 3 not run" in row
    assert row.split()[1] == "passed"
    evidence = json.loads((home / "evidence.json").read_text())
    reasons = {item["reason"] for item in evidence["observations"] if item["check"] == "code"}
    assert {item["verdict"] for item in evidence["observations"] if item["check"] == "code"} == {"skipped"}
    assert len(reasons) == 1
    assert reasons.pop().startswith("not run: no isolation for generated code (namespaces: unshare: Operation not")
