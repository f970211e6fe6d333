"""`upright demo` as a stranger types it: the real llama-server, an empty home, and what is left behind."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tests.conftest import Upright

pytestmark = pytest.mark.engine
LISTED_PATH = "/usr/bin:/bin"
"""Where no test machine has a llama-server."""


def engines_of(home: Path) -> list[str]:
    """Processes that were started for this home."""
    commands = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            mine = f"UPRIGHT_HOME={home}".encode() in path.read_bytes().split(b"\0")
            command = path.with_name("cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if mine and command:
            commands.append(command)
    return commands


def files_of(home: Path) -> list[str]:
    return sorted(str(path.relative_to(home)) for path in home.rglob("*") if path.is_file())


def test_it_goes_to_a_report_and_leaves_nothing_else(upright: Upright, llama_server: Path, tmp_path: Path):
    with socket.socket() as taken:  # the port that other verbs take
        with suppress(OSError):  # somebody has it already
            taken.bind(("127.0.0.1", 8000))
            taken.listen()
        done = upright("demo", "--json", UPRIGHT_LLAMA_SERVER=str(llama_server))
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["stands"] is True
    rates = [
        observation["measured"].get("decode_tokens_per_second") for observation in answer["evidence"]["observations"]
    ]
    assert max(rate for rate in rates if rate) > 0
    home = tmp_path / "home"
    assert answer["page"] == str(home / "demo/report.html")
    assert "tok/s" in Path(answer["page"]).read_text()
    assert files_of(home) == ["demo/report.html"]
    assert engines_of(home) == []
    assert done.stderr.splitlines()[-1] == "next: upright recommend"


def test_without_an_engine_it_says_how_to_get_one(upright: Upright, tmp_path: Path):
    done = upright("demo", PATH=LISTED_PATH, HOME=str(tmp_path), UPRIGHT_LLAMA_SERVER="")
    assert done.returncode == 2
    assert "error: llama-server was not found on this machine\n" in done.stderr
    assert "then: upright demo" in done.stderr
    ways = ("brew install llama.cpp", "sudo apt install", "sudo dnf install", "yay -S", "podman pull", "curl -L")
    assert len([way for way in ways if way in done.stdout]) == 1, "the one that is right here"
    assert "upright tools engine how llama.cpp" in done.stderr
    others = upright("tools", "engine", "how", "llama.cpp").stdout
    assert all(way in others for way in ways)
    assert not (tmp_path / "home/demo").exists()


def test_ctrl_c_leaves_nothing(llama_server: Path, tmp_path: Path):
    home = tmp_path / "home"
    running = subprocess.Popen(
        [sys.executable, "-m", "upright", "demo"],
        env={**os.environ, "UPRIGHT_HOME": str(home), "UPRIGHT_LLAMA_SERVER": str(llama_server), "NO_COLOR": "1"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
    )
    assert running.stderr is not None
    for line in running.stderr:
        if line.startswith("boot:"):
            break
    running.send_signal(signal.SIGINT)
    told = running.stderr.read()
    assert running.wait(60) == 130, told
    running.stderr.close()
    assert files_of(home) == []
    deadline = time.monotonic() + 30
    while (left := engines_of(home)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert left == []


def test_a_variable_that_names_no_program_is_said(upright: Upright) -> None:
    """Before, commands were told that set it once more."""
    done = upright("demo", UPRIGHT_LLAMA_SERVER="/nowhere/llama-server")
    assert done.returncode == 2
    assert "error: UPRIGHT_LLAMA_SERVER names no program that can be run\n" in done.stderr
    assert "or unset UPRIGHT_LLAMA_SERVER" in done.stderr
