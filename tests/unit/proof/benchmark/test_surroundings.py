"""A busy machine is noticed: what others took is what all took but the engine and the generator."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from upright.proof.benchmark.host_interference import HostCounterReader, HostCounters, disturbances

TICKS = os.sysconf("SC_CLK_TCK")
QUIET = HostCounters(worked_seconds=100.0, stolen_seconds=5.0, ours_seconds=40.0, throttled=3)


def machine(root: Path, *, worked: int, ours: int, child: int) -> Path:
    """10 is the engine, 11 its child, 12 somebody else's process."""
    for pid, parent, spent in ((10, 1, ours), (11, 10, child), (12, 1, 999)):
        (root / f"proc/{pid}/fd").mkdir(parents=True, exist_ok=True)
        fields = [str(pid), "(a b) c)", "S", str(parent), *["0"] * 9, str(spent * TICKS), "0", "0", "0"]
        (root / f"proc/{pid}/stat").write_text(" ".join(fields))
    link = root / "proc/10/fd/3"
    if not link.is_symlink():
        link.symlink_to("socket:[777]")
    (root / "proc/stat").write_text(f"cpu  {worked * TICKS} 0 0 50 0 0 0 {2 * TICKS} 0 0\ncpu0 1\n")
    (root / "proc/net").mkdir(exist_ok=True)
    row = "0: 0100007F:1F40 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 777 1"
    (root / "proc/net/tcp").write_text(f"  sl  local_address\n   {row}\n")
    return root


def test_the_engine_and_its_children_are_ours(tmp_path: Path) -> None:
    surveyor = HostCounterReader("127.0.0.1", 8000, machine(tmp_path, worked=100, ours=20, child=30))
    before = surveyor.look()
    assert before == HostCounters(100.0, 2.0, 50.0, 0)
    machine(tmp_path, worked=120, ours=25, child=40)
    after = surveyor.look()
    assert disturbances(before, after, 10.0, 2) == ("busy machine: other processes took 25 % of 2 processors",)
    assert disturbances(before, after, 100.0, 2) == ()
    assert disturbances(before, after, 0.5, 2) == (), "too short to tell"


def test_an_engine_that_cannot_be_seen_is_not_taken_for_others(tmp_path: Path) -> None:
    hidden = HostCounterReader("127.0.0.1", 8001, machine(tmp_path, worked=100, ours=20, child=30)).look()
    assert hidden is not None
    assert hidden.ours_seconds is None
    assert disturbances(hidden, replace(hidden, worked_seconds=900.0), 10.0, 2) == ()
    elsewhere = HostCounterReader("10.0.0.7", 8000, tmp_path).look()
    assert elsewhere is not None
    assert elsewhere.ours_seconds is not None, "the generator alone is ours"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"stolen_seconds": 9.0}, "busy machine: its host took 20 % of 2 processors (steal)"),
        ({"throttled": 5}, "processors were throttled for their heat 2 times"),
        ({"worked_seconds": 103.0, "ours_seconds": 42.5}, None),
    ],
)
def test_what_is_said(changes: dict[str, float], words: str | None) -> None:
    assert disturbances(QUIET, replace(QUIET, **changes), 10.0, 2) == ((words,) if words else ())
    assert disturbances(None, QUIET, 10.0, 2) == ()


@pytest.mark.skipif(sys.platform != "linux", reason="/proc")
def test_a_real_process_is_told_by_its_port() -> None:
    """It works until it is told to stop, and is no child of whoever looks from elsewhere."""
    code = (
        "import socket, sys, time\n"
        "door = socket.create_server(('127.0.0.1', 0)); print(door.getsockname()[1], flush=True)\n"
        "end = time.process_time() + 0.3\n"
        "while time.process_time() < end: pass\n"
        "print('done', flush=True); sys.stdin.read()\n"
    )
    argv = [sys.executable, "-c", code]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        surveyor = HostCounterReader("127.0.0.1", int(process.stdout.readline()))
        first = surveyor.look()
        assert process.stdout.readline() == "done\n"
        last = surveyor.look()
        assert process.stdin is not None
        process.stdin.close()
    assert first is not None
    assert last is not None
    assert first.ours_seconds is not None
    assert last.ours_seconds is not None
    assert last.ours_seconds >= first.ours_seconds
    with socket.create_server(("127.0.0.1", 0)) as door:
        free = door.getsockname()[1]
    gone = HostCounterReader("127.0.0.1", free).look()
    assert gone is not None
    assert gone.ours_seconds is None
