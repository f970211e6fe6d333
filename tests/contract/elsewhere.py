"""An interpreter as a system without POSIX has it.

A stand-in, no Windows and no Mac: what their interpreter has not is hidden from everything that is imported from here
on, and `sys.platform` says their name. The standard library and what draws pages are loaded before, for theirs is made
for both.
"""

from __future__ import annotations

import importlib
import os
import sys
import sysconfig
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

_OF_THE_SYSTEM = (
    "asyncio", "concurrent.futures", "ctypes", "getpass", "http.client", "http.server", "importlib.resources", "locale",
    "logging.handlers", "multiprocessing", "platform", "selectors", "shlex", "shutil", "signal", "socket", "ssl",
    "subprocess", "tarfile", "tempfile", "urllib.request", "uuid", "webbrowser", "zipfile",
    "click", "platformdirs", "rich.console", "rich.table", "rich.text", "yaml",
)  # fmt: skip
_HIDDEN = {
    "win32": frozenset({"fcntl", "termios", "tty", "resource", "pwd", "grp", "pty", "readline", "syslog"}),
    "darwin": frozenset(),
}
_NOT_THERE = {
    "win32": (
        "O_CLOEXEC", "O_DIRECTORY", "O_NOFOLLOW", "O_NONBLOCK", "O_PATH", "fchmod", "fork", "getegid", "geteuid",
        "getgid", "getloadavg", "getpgid", "getuid", "killpg", "mkfifo", "posix_fadvise", "posix_fallocate", "pread",
        "pwrite", "sched_getaffinity", "setsid", "statvfs", "sysconf", "uname", "waitid",
    ),
    "darwin": ("O_PATH", "posix_fadvise", "posix_fallocate", "sched_getaffinity"),
}  # fmt: skip


class _Hidden(MetaPathFinder):
    def __init__(self, names: frozenset[str]) -> None:
        self._names = names

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname in self._names:
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)
        return None


def stand_in(system: str) -> None:
    for name in _OF_THE_SYSTEM:
        importlib.import_module(name)
    sysconfig.get_config_vars()
    sys.platform = system
    for name in _HIDDEN[system]:
        sys.modules.pop(name, None)
    sys.meta_path.insert(0, _Hidden(_HIDDEN[system]))
    for name in _NOT_THERE[system]:
        if hasattr(os, name):
            delattr(os, name)
