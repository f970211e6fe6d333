"""A job on stdin (JSON) -> one line of JSON on stdout for every launch.

Triton is imported once; every compile is a fork of this process with a time limit of its own, because LLVM can abort
the interpreter it runs in.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from . import standins
from .tensors import NotKnownError


@dataclass
class _Work:
    """One compile to do: which task it belongs to, and a function that does it."""

    head: dict[str, Any]
    launch: Any
    until: str


@dataclass
class _Running:
    work: _Work
    pid: int
    pipe: int
    started: float
    received: bytes = b""


def main() -> None:
    job = json.load(sys.stdin)
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # whatever a compiler prints is talk
    standins.target.capability = divmod(job["capability"], 10)
    standins.target.device_name = job["device_name"]
    sys.path.append(job["modules"])
    import triton

    for answer in _answers(job):
        answers.write(json.dumps({"triton": triton.__version__, **answer}) + "\n")


def _answers(job: dict[str, Any]) -> Iterator[dict[str, Any]]:
    queue: list[_Work] = []
    for task in job["tasks"]:
        try:
            if task["until"] == "value":
                yield {"task": task["id"], "launch": 0, "kernel": task["launcher"], "value": _returned(task)}
            else:
                queue += _captured(task)
        except BaseException as error:  # an engine's own code: it may raise anything
            yield {"task": task["id"], "launch": 0, "error": _words(error)}
    running: list[_Running] = []
    while queue or running:
        while queue and len(running) < job["workers"]:
            running.append(_start(queue.pop(0), job["capability"]))
        yield from _collect(running, job["limit_seconds"])


def _returned(task: dict[str, Any]) -> Any:
    from .launch import returned

    return returned(task["module"], task["launcher"], task["arguments"])


def _captured(task: dict[str, Any]) -> Iterator[_Work]:
    from .launch import capture

    launches = capture(task["module"], task["launcher"], task["arguments"])
    for number, launch in enumerate(launches):
        name = launch.kernel.fn.__name__
        if task.get("kernel") not in (None, name):
            continue
        for variant in task.get("variants") or [{}]:
            changed = {key: constant for key, constant in variant.items() if key in launch.options}
            launch_here = type(launch)(launch.kernel, launch.arguments, {**launch.options, **changed}, launch.group)
            head = {"task": task["id"], "launch": number, "kernel": name, "variant": variant, "group": launch.group}
            yield _Work({**head, "constants": _plain(launch_here.options)}, launch_here, task["until"])


def _start(work: _Work, capability: int) -> _Running:
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        try:
            outcome = _compiled(work, capability)
        except BaseException as error:  # the parent must hear of everything
            outcome = {"error": _words(error)}
        os.write(writing, json.dumps(outcome).encode())
        os._exit(0)
    os.close(writing)
    return _Running(work, pid, reading, time.monotonic())


def _compiled(work: _Work, capability: int) -> dict[str, Any]:
    from . import build
    from .launch import bind

    started = time.process_time()
    bound = bind(work.launch, capability)
    step = build.binary if work.until == "binary" else build.shared_memory
    figures = step(work.launch.kernel, bound, capability)
    options = {"num_warps": bound.options.num_warps, "num_stages": bound.options.num_stages}
    return {**options, **figures, "cpu_seconds": round(time.process_time() - started, 3)}


def _collect(running: list[_Running], limit_seconds: float) -> Iterator[dict[str, Any]]:
    ready, _, _ = select.select([child.pipe for child in running], [], [], 0.25)
    for child in list(running):
        over = time.monotonic() - child.started > limit_seconds
        if child.pipe in ready:
            piece = os.read(child.pipe, 65536)
            child.received += piece
            if piece:
                continue
        elif not over:
            continue
        else:
            os.kill(child.pid, signal.SIGKILL)
        running.remove(child)
        os.close(child.pipe)
        _, status = os.waitpid(child.pid, 0)
        yield {**child.work.head, **_outcome(child, status, limit_seconds if over else None)}


def _outcome(child: _Running, status: int, limit_seconds: float | None) -> dict[str, Any]:
    code = os.waitstatus_to_exitcode(status)
    if child.received and code == 0:
        outcome: dict[str, Any] = json.loads(child.received)
        return outcome
    if limit_seconds is not None:
        return {"error": f"the compiler was stopped after {limit_seconds:.0f} s", "transient": True}
    if code < 0:
        return {"error": f"the compiler crashed ({signal.Signals(-code).name})"}
    return {"error": f"the compiler ended with exit code {code}"}


def _plain(options: dict[str, Any]) -> dict[str, Any]:
    return {key: option for key, option in options.items() if isinstance(option, (bool, int, float, str))}


def _words(error: BaseException) -> str:
    if isinstance(error, NotKnownError):
        return str(error)
    if isinstance(error, (ImportError, NameError)):
        return f"a name is missing: {error}"
    lines = [line.strip() for line in str(error).strip().splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[-1] if lines else 'no message'}"[:400]


if __name__ == "__main__":
    main()
