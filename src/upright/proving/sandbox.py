"""Files + a program among them -> how it ended, in a child that cannot loop, fork, fill, allocate or call home.

Namespaces where the kernel allows them: no network, and a process tree that dies as one. Elsewhere limits, a search for
what carries the run's mark, and a Python that refuses sockets; the outcome says which of the two it was.
"""

from __future__ import annotations

import ctypes
import os
import resource
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

Isolation = Literal["namespaces", "limits"]

_NOBODY = 65534
_PR_SET_PDEATHSIG = 1
_MARK = "UPRIGHT_SANDBOX"
_SHOWN_BYTES = 8_000
# -I leaves the program's own folder out of the path, and a solution is imported from there.
_START = "sys.path.insert(0, '.'); sys.argv = sys.argv[2:]; runpy.run_path(sys.argv[0], run_name='__main__')\n"
# Guard: becoming nobody clears the signal that a parent's death sends (prctl(2)), so it is asked for again; our end of
# the pipe tells whether that was too late.
_APART = (
    "import ctypes, os, runpy, select, sys\n"
    f"ctypes.CDLL(None).prctl({_PR_SET_PDEATHSIG}, {int(signal.SIGKILL)})\n"
    "lifeline = int(sys.argv[1])\n"
    "if select.select([lifeline], [], [], 0)[0]: os._exit(1)\n"
    "os.close(lifeline)\n" + _START
)
_NO_SOCKETS = (
    "import runpy, sys\n"
    "def refuse(event, args):\n"
    "    if event.startswith('socket.') and event not in ('socket.gethostname',): raise PermissionError('no network')\n"
    "sys.addaudithook(refuse)\n" + _START
)


@dataclass(frozen=True)
class Limits:
    """What a run may use."""

    wall_seconds: float = 10
    cpu_seconds: int = 5
    memory_bytes: int = 512 << 20
    processes: int = 32
    file_bytes: int = 4 << 20


@dataclass(frozen=True)
class Outcome:
    """How it ended."""

    ok: bool
    reason: str
    """In words; what the program printed last if it failed."""
    output: str
    """Standard output and error, the end of it."""
    isolation: Isolation
    seconds: float


def run_python(files: Mapping[str, str], program: str, limits: Limits | None = None) -> Outcome:
    """`python PROGRAM` in a new folder with these files; the folder and all processes are gone afterwards."""
    limits = limits or Limits()
    mark = f"{os.getpid()}-{secrets.token_hex(16)}"
    folder = Path(tempfile.mkdtemp(prefix=f"upright-sandbox-{os.getpid()}-"))
    try:
        _write(folder, files)
        return _run(folder, program, limits, mark)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@cache
def isolation() -> Isolation:
    """Tried once: can this user have namespaces here?"""
    return "namespaces" if _way().wrapper else "limits"


def marked(mark: str) -> list[int]:
    """Living processes of one run, wherever they have gone."""
    wanted, found = f"{_MARK}={mark}".encode(), []
    for path in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            if wanted in path.read_bytes().split(b"\0") and _is_running(path.parent):
                found.append(int(path.parent.name))
    return found


def _run(folder: Path, program: str, limits: Limits, mark: str) -> Outcome:
    how = isolation()
    interpreter = [_way().interpreter, "-I", "-B", "-S"]
    lifeline, ours = os.pipe()
    argv = [*interpreter, "-c", _APART if how == "namespaces" else _NO_SOCKETS, str(lifeline), program]
    started = time.monotonic()
    with (folder.parent / f"{folder.name}.out").open("w+b") as output:
        Path(output.name).unlink()
        child = subprocess.Popen(
            [*_way().wrapper, *argv],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=folder,
            env={"PATH": os.defpath, "LANG": "C.UTF-8", "HOME": str(folder), _MARK: mark},
            start_new_session=True,
            pass_fds=(lifeline,),
            preexec_fn=lambda: _confine(limits),
        )
        try:
            code: int | None = child.wait(limits.wall_seconds)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            _end(child, mark)
            os.close(lifeline)
            os.close(ours)
        printed_bytes = output.seek(0, os.SEEK_END)
        output.seek(max(0, printed_bytes - _SHOWN_BYTES))
        text = output.read().decode(errors="replace")
    reason = "printed too much" if printed_bytes >= limits.file_bytes else _why(code, text, limits)
    return Outcome(code == 0, reason, text, how, round(time.monotonic() - started, 3))


def _write(folder: Path, files: Mapping[str, str]) -> None:
    for name, content in files.items():
        path = (folder / name).resolve()
        if not path.is_relative_to(folder.resolve()):
            raise ValueError(f"{name} is outside the folder")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    if _way().as_nobody:
        for path in (folder, *folder.rglob("*")):
            os.chown(path, _NOBODY, _NOBODY)


def _confine(limits: Limits) -> None:
    """In the child, before it becomes the program: inherited by all that it starts."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    for kind, value in (
        (resource.RLIMIT_CPU, limits.cpu_seconds),
        (resource.RLIMIT_AS, limits.memory_bytes),
        (resource.RLIMIT_NPROC, limits.processes),
        (resource.RLIMIT_FSIZE, limits.file_bytes),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(kind, (value, value))


def _end(child: subprocess.Popen[bytes], mark: str) -> None:
    """Until nothing of it is left: the group, then whatever left the group."""
    with suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()
    deadline = time.monotonic() + 5
    while (left := marked(mark)) and time.monotonic() < deadline:
        for pid in left:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)


def _why(code: int | None, text: str, limits: Limits) -> str:
    if code is None:
        return f"did not end within {limits.wall_seconds:g} s"
    if code == 0:
        return "ended with code 0"
    if code in (-signal.SIGXCPU, 128 + signal.SIGXCPU, -signal.SIGKILL, 128 + signal.SIGKILL):
        return f"used more than {limits.cpu_seconds} s of CPU"
    last = next((line.strip() for line in reversed(text.splitlines()) if line.strip()), f"ended with code {code}")
    if last.startswith("unshare: "):  # its child was killed, and it says so in its own way
        return f"used more than {limits.cpu_seconds} s of CPU"
    return last[:200]


@dataclass(frozen=True)
class _Way:
    """How a program is put apart from the machine."""

    wrapper: tuple[str, ...]
    interpreter: str
    as_nobody: bool


@cache
def _way() -> _Way:
    """The strictest way that works here. Limits on processes do not bind root, so root's programs run as nobody."""
    interpreters = [str(Path(sys.executable).resolve()), shutil.which("python3", path=os.defpath) or sys.executable]
    unshare = shutil.which("unshare")
    apart = (unshare or "", "--net", "--pid", "--ipc", "--fork", "--kill-child=KILL")
    as_nobody = (*apart, f"--setgid={_NOBODY}", f"--setuid={_NOBODY}", "--")
    as_user = (*apart, "--user", "--map-root-user", "--")
    for wrapper in (as_nobody, as_user) if unshare else ():
        if wrapper is as_nobody and os.getuid() != 0:
            continue
        for interpreter in interpreters:
            argv = [*wrapper, interpreter, "-I", "-S", "-c", "import json"]
            if subprocess.run(argv, capture_output=True, check=False, cwd="/").returncode == 0:
                return _Way(wrapper, interpreter, wrapper is as_nobody)
    return _Way((), sys.executable, False)


def _is_running(process: Path) -> bool:
    return (process / "stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
