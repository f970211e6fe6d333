"""What is real in a test: made by a script of ours (an engine, an image, a generator), or a program of the machine."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def made_by(script: str, **environment: str) -> str:
    """The last line that scripts/SCRIPT prints. Workers that want the same thing wait for the one that makes it."""
    (ROOT / ".cache").mkdir(exist_ok=True)
    with (ROOT / f".cache/{script}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = subprocess.run(
            [ROOT / "scripts" / script], capture_output=True, text=True, env={**os.environ, **environment}, check=False
        )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip().splitlines()[-1]


def needs(program: str) -> None:
    """A newcomer's machine may be without it and the test is skipped; with CI=true it fails."""
    if shutil.which(program):
        return
    without = f"{program} is missing; .ci/run installs it"
    if os.environ.get("CI") == "true":
        pytest.fail(without)
    pytest.skip(without)
