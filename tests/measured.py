"""A command of ours, measured: how it ended, its processor seconds, its memory, what it said."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

MOST_SECONDS, MOST_BYTES = 5.0, 300_000_000
"""Of a refusal; a command that reads nothing takes about half a second and 60 MB."""
_PATIENCE_SECONDS = 180
"""Of a wall clock on a busy machine: whatever waits for ever waits longer."""
_MEASURING = """
import json, os, resource, subprocess, sys
limit = lambda: resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
argv = [sys.executable, "-m", "upright", *sys.argv[2:]]
with open(sys.argv[1], "wb") as talk:
    try:
        code = subprocess.call(argv, stdin=subprocess.DEVNULL, stdout=talk, stderr=talk, preexec_fn=limit, timeout=%d)
    except subprocess.TimeoutExpired:
        code = "waits"
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps([code, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024]))
"""


class Measured(NamedTuple):
    """How a command ended."""

    code: int | str
    seconds: float
    """Of a processor."""
    peak_bytes: int
    talk: str
    """Both streams."""

    def is_cheap(self) -> bool:
        return self.seconds < MOST_SECONDS and self.peak_bytes < MOST_BYTES


def measured(*words: str | Path, folder: Path, **environment: str) -> Measured:
    """By a small process between: a child is as large as its parent was until it becomes something else."""
    surroundings = {**os.environ, "UPRIGHT_HOME": str(folder / "home"), "NO_COLOR": "1", **environment}
    said = folder / "talk.of-measuring"
    argv = [sys.executable, "-c", _MEASURING % _PATIENCE_SECONDS, str(said), *map(str, words)]
    done = subprocess.run(argv, capture_output=True, text=True, env=surroundings, cwd=folder, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    code, seconds, peak_bytes = json.loads(done.stdout)
    return Measured(code, seconds, peak_bytes, said.read_bytes()[-20_000:].decode("utf-8", "replace"))
