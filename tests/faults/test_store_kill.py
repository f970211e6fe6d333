"""`kill -9` at random moments of writing: nothing acknowledged is lost, nothing is unreadable, torn tails are repaired.

The writer is a real process that appends evidence and rewrites a record, and acknowledges each through a pipe the
moment the call returned. Lines reach four megabytes, so that the kernel is often killed out of the middle of a write.
"""

from __future__ import annotations

import os
import random
import select
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.unit.facts.store.samples import deployment, observation
from upright.facts.records.deployment import Deployment
from upright.facts.store import DeploymentDir, check
from upright.facts.store.journal import lines

_KILLS_A_DIRECTORY = 10
_LONGEST_LIFE_SECONDS = 0.03
_AIMED_KILLS = 8


@dataclass
class Acknowledged:
    """What the writer was told is safe."""

    digests: dict[int, str] = field(default_factory=dict)
    writes: int = 0
    torn: set[bytes] = field(default_factory=set)


@pytest.mark.parametrize("kills", [40, pytest.param(200, marks=pytest.mark.slow)])
def test_kill_nine_at_random_moments(tmp_path: Path, capsys: pytest.CaptureFixture[str], kills: int) -> None:
    chance = random.Random(4711)
    started = time.monotonic()
    entries = writes = torn = 0
    for number in range(kills // _KILLS_A_DIRECTORY):
        directory, safe = _new(tmp_path / f"d{number}"), Acknowledged()
        for count in range(_KILLS_A_DIRECTORY):
            with _writer(directory, safe, random.Random(chance.random())) as acknowledgements:
                if count % 2:  # on a slow disk most would otherwise die before their first line
                    select.select([acknowledgements], [], [], 10)
                time.sleep(chance.uniform(0, _LONGEST_LIFE_SECONDS))
            _must_be_sound(directory, safe)
        _must_be_repaired(directory, safe)
        entries, writes, torn = entries + len(safe.digests), writes + safe.writes, torn + len(safe.torn)
    assert entries + writes > kills / 4, "the writers were killed before they had written: nothing was shown"
    with capsys.disabled():
        print(
            f"\n{kills} kills at random in {time.monotonic() - started:.0f} s: {entries} entries and {writes} rewrites"
        )
        print(f"acknowledged, none lost; {torn} torn tails, all repaired and reported")


@pytest.mark.slow
def test_kill_nine_in_the_middle_of_a_write(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Aimed: killed the moment the file grows, while the kernel still copies the line."""
    chance = random.Random(4711)
    directory, safe = _new(tmp_path / "aimed"), Acknowledged()
    kills = 0
    while kills < _AIMED_KILLS or (not safe.torn and kills < 6 * _AIMED_KILLS):  # on a busy machine the aim is poor
        kills += 1
        with _writer(directory, safe, random.Random(chance.random()), smallest=6.5):
            _wait_for_growth(directory.evidence_file)
        _must_be_sound(directory, safe)
    _must_be_repaired(directory, safe)
    assert safe.torn, "no write was ever cut in the middle: nothing was shown"
    with capsys.disabled():
        print(f"\n{kills} kills aimed at a write: {len(safe.torn)} torn tails, all repaired and reported")


def _new(path: Path) -> DeploymentDir:
    path.mkdir()
    directory = DeploymentDir(path)
    directory.write(deployment(directory.name))
    return directory


@contextmanager
def _writer(
    directory: DeploymentDir, safe: Acknowledged, chance: random.Random, *, smallest: float = 1
) -> Iterator[int]:
    """A process that writes until the block ends, where it is killed; what it was told by then is added to `safe`."""
    receive, send = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(receive)
            _write_until_killed(directory, send, chance, safe.writes, smallest)
        finally:
            os._exit(1)  # only reached if the writer broke
    os.close(send)
    yield receive
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status), "the writer ended by itself: it met a store that it could not write"
    with os.fdopen(receive, "rb") as pipe:
        for word in pipe.read().split(b"\n")[:-1]:
            what, _, rest = word.partition(b" ")
            if what == b"entry":
                seq, _, digest = rest.decode().partition(" ")
                safe.digests[int(seq)] = digest
            else:
                safe.writes = int(rest)


def _write_until_killed(
    directory: DeploymentDir, pipe: int, chance: random.Random, writes: int, smallest: float
) -> None:
    while True:
        if chance.random() < 0.3 and smallest == 1:
            writes += 1
            directory.write(deployment(directory.name).model_copy(update={"reason": str(writes)}))
            os.write(pipe, f"write {writes}\n".encode())
            continue
        with directory.writer() as journal:
            for _ in range(chance.randint(1, 3)):
                size = int(10 ** chance.uniform(smallest, 6.6))
                line = journal.append(observation(0, response={"text": "x" * size}))
                os.write(pipe, f"entry {line.seq} {line.digest}\n".encode())


def _wait_for_growth(path: Path) -> None:
    size = path.stat().st_size if path.exists() else 0
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        if path.exists() and path.stat().st_size > size:
            return
    raise AssertionError("the writer wrote nothing for ten seconds")


def _must_be_sound(directory: DeploymentDir, safe: Acknowledged) -> None:
    """Before any repair: readable by everybody, with everything that was acknowledged."""
    found = check(directory.path)
    assert [finding for finding in found if finding.severity == "problem"] == []
    assert int(directory.read(Deployment).reason or 0) >= safe.writes
    last = directory.last()
    assert (last.seq if last else 0) >= max(safe.digests, default=0)
    tail = directory.evidence_file.read_bytes().rpartition(b"\n")[2] if directory.evidence_file.exists() else b""
    assert any(finding.code == "torn" for finding in found) == bool(tail)
    safe.torn |= {tail} - {b""}


def _must_be_repaired(directory: DeploymentDir, safe: Acknowledged) -> None:
    directory.append(observation(0))
    on_disk = {line.seq: line.digest for line in lines(directory.evidence_file)}
    assert {seq: on_disk.get(seq) for seq in safe.digests} == safe.digests
    found = check(directory.path)
    assert "torn" not in {finding.code for finding in found}
    kept = [directory.path / finding.file for finding in found if finding.code == "torn-kept"]
    assert {path.read_bytes() for path in kept} == safe.torn
