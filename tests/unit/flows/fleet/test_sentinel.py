"""Who brings a router back: a service of systemd where there is one, else two processes that start each other again."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.programs import needs
from upright.facts.records.fleet import Fleet
from upright.flows.fleet import sentinel
from upright.flows.fleet.directory import FleetDir


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FleetDir:
    monkeypatch.setenv("UPRIGHT_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    made = FleetDir("pair")
    made.create(Fleet.model_validate({"name": "pair", "model": "m", "boxes": [{"name": "a"}]}))
    return made


def pids(directory: FleetDir) -> dict[int, str]:
    """Watchers of this home, and their number."""
    found = {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            argv = (path / "cmdline").read_bytes().split(b"\0")
            ours = f"UPRIGHT_HOME={directory.path.parent.parent}".encode() in (path / "environ").read_bytes()
        except OSError:
            continue
        if ours and b"upright.flows.fleet.sentinel" in argv:
            found[int(path.name)] = argv[-2].decode()
    return found


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_two_watch_and_each_starts_the_other_again(directory: FleetDir):
    def both() -> bool:
        return all(sentinel._held(directory, number) for number in (0, 1))

    sentinel.start_watchers(directory)
    try:
        until(both)
        victim = next(iter(pids(directory)))
        os.kill(victim, signal.SIGKILL)
        until(lambda: both() and victim not in pids(directory))
    finally:
        sentinel.stop_watchers(directory, patience_seconds=30)
    assert not any(sentinel._held(directory, number) for number in (0, 1))


def test_systemd_keeps_it_where_it_is(directory: FleetDir, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    needs("systemd-analyze")
    calls = tmp_path / "calls"
    program = tmp_path / "bin/systemctl"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\necho "$@" >>{calls}\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setattr(sentinel, "spawn", lambda *_: pytest.fail("systemd does it"))
    sentinel.start_watchers(directory)
    unit = tmp_path / "config/systemd/user/upright-pair-router.service"
    assert "Restart=always" in unit.read_text()
    assert "--user enable --now upright-pair-router.service" in calls.read_text()
    checked = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stderr
    sentinel.stop_watchers(directory)
    assert "--user disable --now upright-pair-router.service" in calls.read_text()
    assert not unit.exists()
