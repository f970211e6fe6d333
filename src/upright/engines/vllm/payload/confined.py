"""This process, without a network and without a way to write outside one folder."""

from __future__ import annotations

import ctypes
import os
import resource
import struct
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_NEW_USER, _NEW_NET = 0x10000000, 0x40000000
_NO_NEW_PRIVILEGES = 38
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # the same numbers on x86_64 and aarch64
_PATH_BENEATH = 1
_WRITES = (
    1 << 1 | 1 << 4 | 1 << 5 | 1 << 6 | 1 << 7 | 1 << 8 | 1 << 9 | 1 << 10 | 1 << 11 | 1 << 12
)  # write a file; remove a folder or file; make one of any kind
_WRITE_FILE = 1 << 1
_MOST_FILE_BYTES = 64 << 20


def confine(folder: str, seconds: int, memory_bytes: int) -> list[str]:
    """What of it the kernel would not do, in words; the rest holds for this process and all that it starts."""
    libc = ctypes.CDLL(None, use_errno=True)
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))
    resource.setrlimit(resource.RLIMIT_DATA, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_FSIZE, (_MOST_FILE_BYTES, _MOST_FILE_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    lacking = []
    if not _without_network(libc):
        lacking.append("the kernel gives no namespace without a network: Python's sockets alone are closed")
    if not (kept := _writes_only_below(libc, folder)):
        lacking.append("the kernel has no Landlock: Python's own writes alone are watched")
    sys.addaudithook(_watch(folder, writes=not kept))
    return lacking


def _without_network(libc: ctypes.CDLL) -> bool:
    apart = _NEW_NET if os.geteuid() == 0 else _NEW_NET | _NEW_USER
    return bool(libc.unshare(apart) == 0)


def _writes_only_below(libc: ctypes.CDLL, folder: str) -> bool:
    handled = struct.pack("Q", _WRITES)
    rules = libc.syscall(_CREATE_RULESET, handled, len(handled), 0)
    if rules < 0:
        return False
    for path, rights in ((folder, _WRITES), ("/dev/null", _WRITE_FILE), ("/dev/shm", _WRITES)):  # noqa: S108
        if not os.path.exists(path):
            continue
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
        libc.syscall(_ADD_RULE, rules, _PATH_BENEATH, struct.pack("=Qi", rights, place), 0)
        os.close(place)
    libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    kept = bool(libc.syscall(_RESTRICT_SELF, rules, 0) == 0)
    os.close(rules)
    return kept


def _watch(folder: str, *, writes: bool) -> Callable[[str, tuple[Any, ...]], None]:
    """Said in Python too: a refused connection names itself, and holds where the kernel cannot."""
    below = os.path.join(os.path.realpath(folder), "")

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "socket.connect":
            raise PermissionError("a connection was tried: nothing is fetched here")
        if writes and event == "open" and arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            path = os.path.realpath(os.fspath(arguments[0])) if not isinstance(arguments[0], int) else below
            if not str(path).startswith((below, "/dev/")):
                raise PermissionError(f"a write outside of the folder was tried: {path}")

    return hook
