"""A script of ours that makes something real (an engine, an image, a generator) -> where it is."""

from __future__ import annotations

import fcntl
import os
import subprocess
from pathlib import Path

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
