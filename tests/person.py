"""A command -> the same command as an ordinary user with a home of his own, started by root or by himself.

Root's Python may lie in /root, which nobody else may enter: in a mount namespace of the command's own such folders are
covered, and only the interpreter and this project are put back at their paths.
"""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parent.parent
UID = 64_999


def as_person(argv: list[str], home: Path) -> list[str]:
    """The argv to start; only root can, and for others it is the same."""
    if os.geteuid() != 0:
        return argv
    return ["unshare", "--mount", "--propagation", "private", sys.executable, "-I", str(__file__), str(home), *argv]


@contextmanager
def home_folder() -> Iterator[Path]:
    """Not below pytest's own, which every other pytest closes to other users."""
    folder = Path(tempfile.mkdtemp(prefix="upright-person-"))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def give(home: Path) -> None:
    """To the person."""
    if os.geteuid() == 0:
        for path in (home, *home.rglob("*")):
            os.chown(path, UID, UID, follow_symlinks=False)


def _closed(path: Path) -> Path | None:
    """The topmost folder on the way that others may not enter."""
    ways = (folder for folder in reversed(path.parents) if not folder.stat().st_mode & stat.S_IXOTH)
    return next(ways, None)


def _open_up(needed: list[Path], holder: Path) -> None:
    """Cover what is closed, and put back what is needed below it."""
    closed = {path: cover for path in needed if (cover := _closed(path)) is not None}
    for number, path in enumerate(closed):
        (holder / str(number)).mkdir()
        subprocess.run(["mount", "--rbind", path, holder / str(number)], check=True)
    for cover in set(closed.values()):
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m,mode=755", "none", cover], check=True)
    for number, path in enumerate(closed):
        path.mkdir(parents=True, exist_ok=True)
        subprocess.run(["mount", "--rbind", holder / str(number), path], check=True)


def _main(home: str, *argv: str) -> None:
    holder = Path("/mnt")
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", holder], check=True)
    _open_up([Path(sys.base_prefix), ROOT, Path(home)], holder)
    os.chdir(home)
    os.setgroups([])
    os.setgid(UID)
    os.setuid(UID)
    os.execvpe(argv[0], list(argv), {**os.environ, "HOME": home, "USER": "person", "LOGNAME": "person"})


if __name__ == "__main__":
    _main(*sys.argv[1:])
