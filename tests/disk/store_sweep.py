"""Every write of the store made to fail once, in turn: run with faults.so preloaded, FAULT_UNDER the folder given.

Each life is a process of its own that does what a command does, and tells through a pipe what was acknowledged. Prints
a line of JSON: how many writes there are, how many failed, and what was wrong afterwards.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import shutil
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path

from tests.unit.facts.store.samples import deployment, observation
from upright.base.errors import UprightError
from upright.facts import store
from upright.facts.records.deployment import Deployment
from upright.facts.store import DeploymentDir
from upright.facts.store.journal import lines

FAULTS = ctypes.CDLL(None)
NAME = "d"


def main(folder: Path) -> None:
    wrong: list[str] = []
    lives = 0
    writes = _life(folder, wrong, 0, 1, 0)
    for number in range(1, writes + 1):
        for code in (errno.ENOSPC, errno.EIO):
            for times in (1, 10_000):
                _life(folder, wrong, number, times, code)
                lives += 1
    print(json.dumps({"writes": writes, "lives": lives, "wrong": wrong}))


def _life(folder: Path, wrong: list[str], number: int, times: int, code: int) -> int:
    """One process that lives with that fault, and what it left; how many writes it made."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    os.environ["UPRIGHT_HOME"] = str(folder)
    receive, send = os.pipe()
    if (child := os.fork()) == 0:
        try:
            FAULTS.fault_arm(ctypes.c_long(number), ctypes.c_long(times), ctypes.c_int(code))
            for word in _work():
                os.write(send, f"{word}\n".encode())
            os.write(send, f"count {FAULTS.fault_count()}\n".encode())
        except BaseException:
            os.write(send, f"broke {traceback.format_exc()!r}\n".encode())
        finally:
            os._exit(0)
    os.close(send)
    with os.fdopen(receive) as pipe:
        told = [line.rstrip("\n").partition(" ")[::2] for line in pipe]
    os.waitpid(child, 0)
    wrong += [f"write {number}, errno {code}, {times} times: {words}" for words in _afterwards(told)]
    return next((int(rest) for word, rest in told if word == "count"), 0)


def _work() -> Iterator[str]:
    """What a person's commands do, one after another; an expected error ends one, and the next is tried."""
    steps = [_created, _rewritten, _appended, _torn, _appended, _kept_open, _rewritten, _appended]
    for count, step in enumerate(steps, start=1):
        try:
            yield from step(count)
        except UprightError as error:
            yield f"refused {error.message!r}"


def _directory() -> DeploymentDir:
    return DeploymentDir(Path(os.environ["UPRIGHT_HOME"]) / "deployments" / NAME)


def _created(count: int) -> Iterator[str]:
    directory = store.create(NAME)
    directory.key()
    yield from _rewritten(count)


def _rewritten(count: int) -> Iterator[str]:
    _directory().write(deployment(NAME).model_copy(update={"reason": str(count)}))
    yield f"record {count}"


def _appended(count: int) -> Iterator[str]:
    line = _directory().append(observation(count))
    yield f"entry {line.seq} {line.digest}"


def _torn(count: int) -> Iterator[str]:
    """As a killed writer leaves it; no write of the store's own."""
    FAULTS.fault_pause(1)
    if _directory().evidence_file.exists():
        with _directory().evidence_file.open("ab") as file:
            file.write(b'{"seq":')
    FAULTS.fault_pause(0)
    yield "torn"


def _kept_open(count: int) -> Iterator[str]:
    """One writer of several lines goes on after one that failed."""
    with _directory().writer() as journal:
        for number in range(3):
            try:
                line = journal.append(observation(number))
            except UprightError as error:
                yield f"refused {error.message!r}"
            else:
                yield f"entry {line.seq} {line.digest}"


def _afterwards(told: list[tuple[str, str]]) -> Iterator[str]:
    """The disk is well again: nothing acknowledged is lost, nothing stands in the way."""
    yield from (f"not an expected error: {rest}" for word, rest in told if word == "broke")
    entries = dict(rest.split() for word, rest in told if word == "entry")
    records = [int(rest) for word, rest in told if word == "record"]
    directory = _directory()
    if not directory.path.exists():
        if entries or records:
            yield "the directory is gone"
        return
    if records and int(directory.read(Deployment).reason or 0) < max(records):
        yield f"record {max(records)} was acknowledged, and {directory.read(Deployment).reason} is there"
    directory.write(deployment(NAME))
    directory.append(observation(99))
    there = {str(line.seq): line.digest for line in lines(directory.evidence_file)}
    yield from (f"entry {seq} was acknowledged, and is lost" for seq in entries if there.get(seq) != entries[seq])
    yield from (str(finding) for finding in store.check(directory.path) if finding.severity == "problem")
    if not directory.key().startswith("sk-upright-"):
        yield "the key is not whole"


if __name__ == "__main__":
    main(Path(sys.argv[1]))
