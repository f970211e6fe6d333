"""Disks that fail on cue: a library that is preloaded into a process, and a small real one that is filled."""

from __future__ import annotations

import fcntl
import subprocess
from pathlib import Path

FOLDER = Path(__file__).parent
ROOT = FOLDER.parent.parent


def faults_library() -> Path:
    """faults.c, compiled once; clang is there for the guard of fleets anyway."""
    source, library = FOLDER / "faults.c", ROOT / ".cache/faults/faults.so"
    library.parent.mkdir(parents=True, exist_ok=True)
    with (library.parent / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not library.exists() or library.stat().st_mtime < source.stat().st_mtime:
            subprocess.run(["clang", "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True)
    return library
