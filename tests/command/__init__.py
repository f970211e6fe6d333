"""`upright` for tests: as a person has it, without the half second in which Python imports it.

A process that has imported the house waits on a socket, one for each worker of pytest. Whoever wants `upright WORDS`
sends it words, environment, folder and the three streams; it forks, and the copy is `python -m upright WORDS` from
there on, a process of its own that ends as any does. tests/contract/test_command.py holds the two ways against each
other, verb by verb.
"""

from __future__ import annotations

import atexit
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

from tests.command import client

_HERE = Path(__file__).parent


def command() -> list[str]:
    """The first words of an argv, for tests that start, signal or kill a command themselves."""
    return [sys.executable, "-IS", str(_HERE / "client.py"), _server()]


def program() -> Path:
    """A file named `upright`, alone in its folder, for a PATH."""
    path = Path(_server()).with_name("bin") / "upright"
    if not path.exists():
        path.parent.mkdir()
        path.write_text(f'#!/bin/sh\nexec {" ".join(command())} "$@"\n')
        path.chmod(0o755)
    return path


def run(
    words: list[str], environment: dict[str, str], folder: Path, timeout: float
) -> subprocess.CompletedProcess[str]:
    """As `subprocess.run` with captured text."""
    done = client.finished(_server(), words, environment, str(folder), timeout)
    if done is not None:
        return done
    argv = [sys.executable, "-m", "upright", *words]
    return subprocess.run(
        argv, capture_output=True, text=True, timeout=timeout, env=environment, cwd=folder, check=False
    )


@cache
def _server() -> str:
    folder = tempfile.mkdtemp(prefix="upright-", dir="/tmp")  # a socket's name is short
    path = f"{folder}/socket"
    argv = [sys.executable, "-P", str(_HERE / "server.py"), path]
    server = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=None)
    atexit.register(_end, server, folder)
    assert server.stdout is not None
    assert server.stdout.readline() == b"ready\n", "the command's server did not come up"
    return path


def _end(server: subprocess.Popen[bytes], folder: str) -> None:
    assert server.stdin is not None
    server.stdin.close()
    server.wait(10)
    shutil.rmtree(folder, ignore_errors=True)
