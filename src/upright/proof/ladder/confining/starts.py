"""How foreign code is isolated on this machine, or why it cannot be.

Own walls first: they need no program, root needs no user namespace for them, and they bound the number of files too.
bubblewrap where the kernel is too old for them (5.12), or gives namespaces to that program only (Ubuntu's AppArmor).
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from upright.proof.ladder.confining.walls import DEVICES, HIDDEN_BYTES, NOBODY

if TYPE_CHECKING:
    from upright.proof.ladder.confining.walls import WalledPlace

Isolation = Literal["namespaces", "bubblewrap"]
WORK, HOME = "/work", "/home/nobody"
ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "HOME": HOME, "TMPDIR": "/tmp"}
_OWN = {WORK: 8 << 20, HOME: 8 << 20, "/tmp": 8 << 20, "/run": 1 << 20, "/dev/shm": 8 << 20}
_SYSTEM = ("/lib", "/lib32", "/lib64", "/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/share/zoneinfo", "/nix/store", "/gnu/store")  # fmt: skip  # noqa: E501
_FILES = 1_024


@dataclass(frozen=True)
class ConfinedStart:
    """How a bare interpreter is started so that it ends up behind walls."""

    isolation: Isolation
    interpreter: str
    place: WalledPlace
    wrapper: tuple[str, ...]
    """What stands before the interpreter; nothing if it builds the walls itself."""
    as_nobody: bool
    """Started with nobody's rights from the outset."""


def confined_starts() -> Iterator[ConfinedStart]:
    """In the order in which they are tried."""
    for interpreter in interpreters():
        yield ConfinedStart("namespaces", interpreter, place_for(interpreter), (), False)
    if bwrap := shutil.which("bwrap"):
        for interpreter in interpreters():
            place = place_for(interpreter)
            yield ConfinedStart("bubblewrap", interpreter, place, tuple(_bubblewrap(bwrap, place)), os.geteuid() == 0)


@cache
def interpreters() -> tuple[str, ...]:
    """The one that runs us, without its environment, and the system's."""
    base = getattr(sys, "_base_executable", None) or sys.executable
    named = (base, shutil.which("python3", path=os.defpath))
    return tuple(dict.fromkeys(os.path.realpath(path) for path in named if path))


def place_for(interpreter: str) -> WalledPlace:
    """The libraries of the system and of the interpreter, without packages that somebody installed for it."""
    prefix = Path(interpreter).parent.parent
    wanted = [*_SYSTEM, str(prefix / "lib"), str(prefix / "lib64"), interpreter]
    shown: list[str] = []
    links: list[tuple[str, str]] = []
    for path in sorted(dict.fromkeys(wanted), key=len):
        if Path(path).is_symlink():
            links.append((path, str(Path(path).readlink())))
        elif Path(path).exists() and not any(Path(path).is_relative_to(folder) for folder in shown):
            shown.append(path)
    packages = (path for folder in shown for path in sorted(Path(folder).glob("python*/*-packages")) if path.is_dir())
    apart = (link for link in links if not any(Path(link[0]).is_relative_to(path) for path in shown))
    return {
        "shown": shown, "hidden": [str(path) for path in packages if not path.is_symlink()], "links": list(apart),
        "own": _OWN, "files": _FILES, "work": WORK,
    }  # fmt: skip


def _bubblewrap(bwrap: str, place: WalledPlace) -> Iterator[str]:
    """Guard: as root or with the plain options it leaks: see docs/dependencies.md."""
    yield from (bwrap, "--unshare-user", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts")
    yield from ("--unshare-cgroup-try", "--uid", str(NOBODY), "--gid", str(NOBODY), "--hostname", "sandbox")
    yield from ("--cap-drop", "ALL", "--die-with-parent", "--dir", "/proc")
    for name in DEVICES:
        yield from ("--dev-bind", f"/dev/{name}", f"/dev/{name}")
    for path, size in place["own"].items():
        yield from ("--size", str(size), "--tmpfs", path)
    for path in place["shown"]:
        yield from ("--ro-bind", path, path)
    for path in place["hidden"]:
        yield from ("--size", str(HIDDEN_BYTES), "--tmpfs", path, "--remount-ro", path)
    for path, target in place["links"]:
        yield from ("--symlink", target, path)
    yield from ("--remount-ro", "/", "--chdir", place["work"], "--")
