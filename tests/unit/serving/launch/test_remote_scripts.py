"""The scripts for another machine, run here by every shell that such a machine may have."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from upright.serving.launch.places import remote_scripts
from upright.serving.launch.processes import identify, members
from upright.serving.launch.runtimes import Command

SHELLS = [
    shell
    for shell in (["dash"], ["bash"], ["busybox", "sh"])
    if shutil.which(shell[0]) or Path("/bin", shell[0]).exists()
]
KEY = "sk-planted-0123456789"
FOLDER = ".local/state/upright/test"


@pytest.fixture(params=SHELLS, ids=lambda shell: shell[0])
def shell(request, tmp_path):
    def run(script: str) -> str:
        environment = {**os.environ, "HOME": str(tmp_path)}
        done = subprocess.run(request.param, input=script, capture_output=True, text=True, env=environment, timeout=30)
        assert done.stderr == ""
        return done.stdout

    yield run
    run(remote_scripts.end(FOLDER, 1))


def start(shell, *argv: str, **more) -> str:
    return shell(remote_scripts.start(FOLDER, Command(argv=argv, **more), KEY, "/no/config"))


def wait_for(shell, verdict: str) -> None:
    deadline = time.monotonic() + 10
    while remote_scripts.verdict(shell(remote_scripts.look(FOLDER))) != verdict:
        assert time.monotonic() < deadline, shell(remote_scripts.look(FOLDER))
        time.sleep(0.05)


def test_a_life(shell, tmp_path):
    said = start(
        shell,
        "sh",
        "-c",
        'echo "$WORDS $SECRET"; sleep 300',
        environment={"WORDS": "two 'words'"},
        key_variable="SECRET",
    )
    process = remote_scripts.identity(said)
    assert process is not None
    assert identify(process.pid) == process, "named as processes are named here"
    wait_for(shell, "alive")
    log = tmp_path / FOLDER / "log"
    while not log.read_text():
        time.sleep(0.02)
    assert log.read_text() == f"two 'words' {KEY}\n"
    assert (tmp_path / FOLDER / "key").stat().st_mode & 0o077 == 0
    words = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()]
    assert not any(KEY.encode() in each for each in words)
    assert remote_scripts.verdict(shell(remote_scripts.end(FOLDER, 5))) == "gone"
    assert members(process) == []
    assert not (tmp_path / FOLDER / "key").exists(), "the key does not stay behind"
    wait_for(shell, str(-signal.SIGTERM))


@pytest.mark.parametrize(("script", "code"), [("exit 0", "0"), ("exit 3", "3"), ("kill -9 $$", "-9")])
def test_the_exit_code_comes_back(shell, script, code):
    start(shell, "sh", "-c", script)
    wait_for(shell, code)


def test_a_stubborn_engine_is_killed_with_its_workers(shell):
    said = start(shell, "sh", "-c", "trap '' TERM; sh -c \"trap '' TERM; sleep 300\" & sleep 300")
    process = remote_scripts.identity(said)
    assert process is not None
    time.sleep(0.3)
    assert remote_scripts.verdict(shell(remote_scripts.end(FOLDER, 0.5))) == "gone"
    assert members(process) == []


def test_killed_without_a_word_or_rebooted_is_gone(shell, tmp_path):
    process = remote_scripts.identity(start(shell, "sleep", "300"))
    assert process is not None
    file = tmp_path / FOLDER / "process"
    file.write_text(file.read_text().replace(str(process.boot_id), "another-boot"))
    assert remote_scripts.verdict(shell(remote_scripts.look(FOLDER))) == "gone"
    assert remote_scripts.verdict(shell(remote_scripts.end(FOLDER, 1))) == "gone"
    assert identify(process.pid) is not None, "a number of another boot is a stranger's"
    os.killpg(process.pid, signal.SIGKILL)
    file.write_text(f"upright-process {process.pid} {process.started_ticks} {process.boot_id}\n")
    wait_for(shell, "gone")


def test_nothing_was_ever_started(shell):
    assert remote_scripts.verdict(shell(remote_scripts.look(FOLDER))) == "gone"
    assert remote_scripts.verdict(shell(remote_scripts.end(FOLDER, 1))) == "gone"
    assert shell(remote_scripts.rest(FOLDER, 0)) == ""


def test_the_log_from_where_it_broke_off(shell, tmp_path):
    start(shell, "sh", "-c", "echo one; echo two")
    wait_for(shell, "0")
    assert shell(remote_scripts.rest(FOLDER, 0)) == "one\ntwo\n"
    assert shell(remote_scripts.rest(FOLDER, 4)) == "two\n"
