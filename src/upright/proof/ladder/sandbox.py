"""Files of foreign code + our assertions -> whether they hold, judged by a process that the code cannot reach.

Two bare interpreters, each behind walls of its own: one has the code, the other the assertions. Where no walls can be
built nothing is run: NotIsolatedError says why.
"""

from __future__ import annotations

import ast
import builtins
import hmac
import json
import os
import secrets
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from importlib.resources import files as resources
from io import FileIO
from typing import Any

from upright.base.bounds.bounded_json import parse_json
from upright.proof.ladder.confining.judging import JudgedCode
from upright.proof.ladder.confining.plain import READY, printable
from upright.proof.ladder.confining.starts import ENVIRONMENT, ConfinedStart, Isolation, confined_starts
from upright.proof.ladder.confining.walls import NOBODY

_START = (
    "import json, sys, types\n"
    "bundle = json.load(sys.stdin)\n"
    "for name, source in bundle.pop('modules'):\n"
    "    module = sys.modules[name] = types.ModuleType(name)\n"
    "    module.__path__ = []\n"
    "    exec(compile(source, name, 'exec'), module.__dict__)\n"
    "    parent, _, short = name.rpartition('.')\n"
    "    if parent: setattr(sys.modules[parent], short, module)\n"
    "module.main(bundle)\n"
)
_READY_SECONDS = 20.0
_GONE_SECONDS = 5.0
_VERDICT_BYTES = 4_096
_MOST_CHARACTERS = 1 << 20


@dataclass(frozen=True)
class SandboxLimits:
    """What a run may use."""

    wall_seconds: float = 10
    cpu_seconds: int = 5
    memory_bytes: int = 512 << 20
    threads: int = 32
    file_bytes: int = 4 << 20
    open_files: int = 64


@dataclass(frozen=True)
class SandboxOutcome:
    """How it ended."""

    ok: bool
    reason: str
    """In words; the code's own error if it had one."""
    isolation: Isolation
    seconds: float


class NotIsolatedError(Exception):
    """This machine has no walls to put foreign code behind: it was not run. The message says why."""


def run_assertions(
    files: Mapping[str, str], assertions: str, *, about: str | None = None, limits: SandboxLimits | None = None
) -> SandboxOutcome:
    """Our assertions on that code. `about`: the module whose names they use; None if they import what they need."""
    limits, word, started = limits or SandboxLimits(), secrets.token_hex(32), time.monotonic()
    if problem := _unfit(files):
        return SandboxOutcome(False, problem, isolation(), 0.0)
    trial = {**_trial(assertions, about), "word": word}
    with ExitStack() as stack:
        asked, asks = _pipe(stack)
        answers, answered = _pipe(stack)
        verdict, told = _pipe(stack)
        code = stack.enter_context(_running(asked, answered, files=files, limits=limits))
        judge = stack.enter_context(_running(asks, answers, verdict=told, trial=trial, limits=limits))
        for end in (asked, asks, answers, answered, told):
            end.close()
        code.must_be_ready()
        judge.must_be_ready()
        line = _line(verdict, _VERDICT_BYTES, limits.wall_seconds)
        reason = _reason(line, word, code, limits)
        return SandboxOutcome(reason is None, reason or "holds", _way().isolation, round(time.monotonic() - started, 3))


@contextmanager
def contained_code(files: Mapping[str, str], limits: SandboxLimits | None = None) -> Iterator[JudgedCode]:
    """That code behind its walls, to be asked from here; for a look at the walls."""
    with ExitStack() as stack:
        asked, asks = _pipe(stack)
        answers, answered = _pipe(stack)
        code = stack.enter_context(_running(asked, answered, files=files, limits=limits or SandboxLimits()))
        asked.close()
        answered.close()
        code.must_be_ready()
        yield JudgedCode(asks.fileno(), answers.fileno())


def isolation() -> Isolation:
    """Tried once; NotIsolatedError if there is none."""
    return _way().isolation


def _way() -> ConfinedStart:
    way, why = _tried_ways()
    if way is None:
        raise NotIsolatedError(why)
    return way


@cache
def _tried_ways() -> tuple[ConfinedStart | None, str]:
    """The first that holds when it is looked at from inside."""
    if sys.platform != "linux":
        return None, f"isolation needs Linux, and this is {sys.platform}"
    reasons: dict[str, str] = {}
    for way in confined_starts():
        with ExitStack() as stack:
            asked, _ = _pipe(stack)
            _, answered = _pipe(stack)
            trial = stack.enter_context(_running(asked, answered, limits=SandboxLimits(), way=way))
            try:
                trial.must_be_ready()
            except NotIsolatedError as error:
                reasons.setdefault(way.isolation, str(error))
            else:
                return way, ""
    reasons.setdefault("bubblewrap", "bwrap is not installed")
    return None, "; ".join(f"{name}: {reason}" for name, reason in reasons.items())


@dataclass
class _Running:
    """A process that is on its way behind walls, or there."""

    process: subprocess.Popen[bytes]
    status: FileIO
    errors: FileIO

    def must_be_ready(self) -> None:
        line = _line(self.status, 400, _READY_SECONDS)
        if line != READY:
            self.errors.seek(0)
            message = line or self.errors.read(4_000).strip().rpartition(b"\n")[2]
            why = printable(message.decode(errors="replace").removeprefix("bwrap: "), 120)
            raise NotIsolatedError(why or "it did not start")


@contextmanager
def _running(
    asks: FileIO,
    answers: FileIO,
    *,
    limits: SandboxLimits,
    files: Mapping[str, str] | None = None,
    verdict: FileIO | None = None,
    trial: dict[str, Any] | None = None,
    way: ConfinedStart | None = None,
) -> Iterator[_Running]:
    way = way or _way()
    with ExitStack() as stack:
        (lifeline, _), (status, told), (alive, held) = (_pipe(stack) for _ in range(3))
        ends = {
            "asks": asks, "answers": answers, "verdict": verdict, "status": told, "lifeline": lifeline, "held": held,
        }  # fmt: skip
        numbers = {name: end.fileno() for name, end in ends.items() if end is not None}
        bundle = {
            "modules": _modules("judging" if trial else "answering"), "trial": trial, "walls": not way.wrapper,
            "place": way.place, "files": dict(files or {}), "limits": _kernel_limits(limits), "channels": numbers,
        }  # fmt: skip
        errors = _memory(stack, b"")
        process = subprocess.Popen(
            [*way.wrapper, way.interpreter, "-I", "-S", "-B", "-c", _START],
            stdin=_memory(stack, json.dumps(bundle).encode()),
            stdout=errors,
            stderr=errors,
            cwd="/",
            env=ENVIRONMENT,
            start_new_session=True,
            pass_fds=tuple(numbers.values()),
            user=NOBODY if way.as_nobody else None,
            group=NOBODY if way.as_nobody else None,
            extra_groups=[] if way.as_nobody else None,
        )
        told.close()
        held.close()
        try:
            yield _Running(process, status, errors)
        finally:
            _end(process)
            _line(alive, 1, _GONE_SECONDS)


def _kernel_limits(limits: SandboxLimits) -> dict[str, int]:
    return {
        "RLIMIT_CPU": limits.cpu_seconds,
        "RLIMIT_AS": limits.memory_bytes,
        "RLIMIT_NPROC": limits.threads,
        "RLIMIT_FSIZE": limits.file_bytes,
        "RLIMIT_NOFILE": limits.open_files,
        "RLIMIT_CORE": 0,
        "RLIMIT_MEMLOCK": 0,
        "RLIMIT_MSGQUEUE": 0,
        "RLIMIT_SIGPENDING": 64,
    }


def _unfit(files: Mapping[str, str]) -> str | None:
    """Why these cannot be files of one small folder."""
    for name in files:
        parts = name.split("/")
        if "\0" in name or not all(parts) or {".", ".."} & set(parts):
            return f"{printable(ascii(name), 80)} is no name inside the folder"
    characters = sum(map(len, files.values()))
    return f"{characters:,} characters of files are too many" if characters > _MOST_CHARACTERS else None


def _trial(assertions: str, about: str | None) -> dict[str, Any]:
    """What the judge is told, but for the word."""
    names, modules = _free_names(assertions) if about else [], _imported(assertions)
    if not names and not modules:
        raise ValueError("the assertions use nothing of the code")
    return {"assertions": assertions, "names": names, "modules": [about, *modules] if about else modules}


@cache
def _modules(role: str) -> list[tuple[str, str]]:
    """What the bare interpreter is sent, in the order in which they need each other."""
    room = "upright.proof.ladder.confining"
    folder, names = resources(room), ("plain", "syscalls", "walls", role, "inside")
    sources = [(f"{room}.{name}", folder.joinpath(f"{name}.py").read_text(encoding="utf-8")) for name in names]
    return [*((package, "") for package in ("upright", "upright.proof", "upright.proof.ladder", room)), *sources]


def _free_names(source: str) -> list[str]:
    """What is used and neither made there nor Python's own."""
    nodes = list(ast.walk(ast.parse(source)))
    names = [node for node in nodes if isinstance(node, ast.Name)]
    made = {node.id for node in names if not isinstance(node.ctx, ast.Load)}
    made |= {node.arg for node in nodes if isinstance(node, ast.arg)}
    return list(dict.fromkeys(node.id for node in names if node.id not in made and not hasattr(builtins, node.id)))


def _imported(source: str) -> list[str]:
    """Modules that it imports and Python itself does not have."""
    nodes = list(ast.walk(ast.parse(source)))
    names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module]
    return [name for name in dict.fromkeys(names) if name.split(".")[0] not in sys.stdlib_module_names]


def _reason(line: bytes | None, word: str, code: _Running, limits: SandboxLimits) -> str | None:
    """None if the judge gave the word; else why not."""
    if line is None:
        return f"did not end within {limits.wall_seconds:g} s"
    try:
        told = parse_json(line)
    except ValueError:
        return "it could not be judged: the judge ended without a word"
    if hmac.compare_digest(str(told.get("word", "")), word):
        return None
    if not told.get("ended"):
        return printable(str(told.get("failed")), 200)
    with suppress(subprocess.TimeoutExpired):
        ended = code.process.wait(1)
        if ended in (128 + signal.SIGXCPU, 128 + signal.SIGKILL):
            return f"used more than {limits.cpu_seconds} s of CPU"
        return f"ended before it was judged, with code {ended}"
    return "ended before it was judged"


def _line(pipe: FileIO, most: int, seconds: float) -> bytes | None:
    """Up to the first line's end, or all of it; None if that does not come in time."""
    deadline, whole = time.monotonic() + seconds, b""
    while len(whole) < most and not whole.endswith(b"\n"):
        if not select.select([pipe], [], [], max(0.0, deadline - time.monotonic()))[0]:
            return None
        if not (piece := pipe.read(most - len(whole))):
            break
        whole += piece
    return whole


def _end(process: subprocess.Popen[bytes]) -> None:
    """The group: the first process of a place is in it, and the kernel ends all others with that one."""
    if process.poll() is None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _pipe(stack: ExitStack) -> tuple[FileIO, FileIO]:
    read, write = os.pipe()
    return stack.enter_context(FileIO(read, "rb")), stack.enter_context(FileIO(write, "wb"))


def _memory(stack: ExitStack, content: bytes) -> FileIO:
    """A file that has no name."""
    file = stack.enter_context(FileIO(os.memfd_create("upright"), "rb+"))
    file.write(content)
    file.seek(0)
    return file
