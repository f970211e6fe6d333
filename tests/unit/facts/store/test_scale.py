"""A long log is as fast as a short one, and a list of many deployments reads none of their evidence."""

from __future__ import annotations

import hashlib
import os
import shutil
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

from tests.unit.facts.store.samples import deployment, observation
from upright.facts import store
from upright.facts.records.deployment import Deployment
from upright.facts.store import DeploymentDir
from upright.facts.store.journal import lines

pytestmark = pytest.mark.timing

T = TypeVar("T")
_SHORT, _LONG = 1_000, 100_000
_ROUNDS = 60


def test_append_and_read_last_do_not_slow_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ratio of medians, 100,000 entries to 1,000; a log read from its start would show 100."""
    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", lambda _: None)
        short, long = _filled(tmp_path / "short", _SHORT), _filled(tmp_path / "long", _LONG)
        ratios = {
            "read last": _ratio(DeploymentDir.last, short, long),
            "open and append, without fsync": _ratio(_append, short, long),
            "append in an open log, without fsync": _ratio_of_open(short, long),
        }
    ratios["open and append, with fsync"] = _ratio(_append, short, long)
    with capsys.disabled():
        print(f"\n{_LONG:,} entries against {_SHORT:,} ({long.evidence_file.stat().st_size / 1e6:.0f} MB):")
        for what, (microseconds, ratio) in ratios.items():
            print(f"  {what:38} {microseconds:7.0f} µs   x{ratio:.2f}")
    assert all(ratio < 2 for what, (_, ratio) in ratios.items() if "with fsync" not in what), ratios
    last = long.last()
    assert last is not None
    assert last.seq == _LONG + 3 * _ROUNDS
    assert all(line.kind == "observation" for line in lines(short.evidence_file))


def test_a_thousand_deployments_with_long_evidence_are_listed_fast(
    own_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = store.create("model")
    first.evidence_file.write_bytes(b"not even a log\n" * 400_000)
    for number in range(1, 1_001):
        path = own_home / "deployments" / f"model-{number}"
        path.mkdir()
        record = deployment(path.name, created_at=f"2026-11-15T00:{number % 60:02}:{number // 60:02}.000+00:00")
        (path / "deployment.json").write_text(record.to_json())
        os.link(first.evidence_file, path / "evidence.jsonl")
    started = time.monotonic()
    found = store.find(None)
    find_seconds = time.monotonic() - started
    assert found.name == "model-959"  # minute 59, second 15
    started = time.monotonic()
    listed = store.list_deployments()
    list_seconds = time.monotonic() - started
    assert len(listed) == 1_000
    assert listed[-1].directory == found
    with capsys.disabled():
        print(f"\n1,000 deployments: the last one found in {find_seconds * 1e3:.0f} ms, ", end="")
        print(f"all read in {list_seconds * 1e3:.0f} ms")
    assert find_seconds < 1
    assert list_seconds < 5


def test_listing_survives_a_broken_directory(own_home: Path) -> None:
    good = store.create("good")
    good.write(deployment("good"))
    for number, content in enumerate(
        [b"", b'{"record": "deploy', b"[]", b"\xff\xfe", b'{"record": "box", "schema": 1}']
    ):
        path = own_home / "deployments" / f"broken-{number}"
        shutil.copytree(good.path, path)
        (path / "deployment.json").write_bytes(content)
    listed = {item.directory.name: item for item in store.list_deployments()}
    assert listed["good"].deployment == good.read(Deployment)
    assert len(listed) == 6
    for name, item in listed.items():
        if name != "good":
            assert item.deployment is None
            assert item.problem
            assert "deployment.json" in item.problem


def test_the_newest_deployment_is_the_last_even_if_it_is_broken(own_home: Path) -> None:
    store.create("old").write(deployment("old", created_at="2020-01-01T00:00:00.000+00:00"))
    store.create("new").write(deployment("new", created_at="2020-01-02T00:00:00.000+00:00"))
    assert store.find(None).name == "new"
    (own_home / "deployments/old/deployment.json").write_bytes(b"{")
    assert store.find(None).name == "old"  # better an error about the newest than silently another one


def _filled(path: Path, count: int) -> DeploymentDir:
    """A log as docs/store.md describes it, written here by other means."""
    path.mkdir()
    directory = DeploymentDir(path)
    previous = "0" * 64
    content = observation(1).model_dump_json()
    with directory.evidence_file.open("wb") as file:
        for seq in range(1, count + 1):
            body = (
                f'{{"seq":{seq},"previous":"{previous}","record":"observation","schema":1,"content":{content}'.encode()
            )
            previous = hashlib.sha256(body).hexdigest()
            file.write(body + f',"digest":"{previous}"}}\n'.encode())
    return directory


def _append(directory: DeploymentDir) -> None:
    directory.append(observation(2))


def _ratio_of_open(short: DeploymentDir, long: DeploymentDir) -> tuple[float, float]:
    with short.writer() as a, long.writer() as b:
        return _ratio(lambda journal: journal.append(observation(3)), a, b)


def _ratio(what: Callable[[T], object], short: T, long: T) -> tuple[float, float]:
    """Microseconds with the long one, and how many times the short one that is; measured in turns."""
    taken: tuple[list[float], list[float]] = ([], [])
    for _ in range(_ROUNDS):
        for times, subject in zip(taken, (short, long), strict=True):
            started = time.perf_counter()
            what(subject)
            times.append(time.perf_counter() - started)
    a, b = statistics.median(taken[0]), statistics.median(taken[1])
    return b * 1e6, b / a
