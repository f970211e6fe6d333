"""A file is the old one or the new one, whatever happens while it is written."""

from __future__ import annotations

import os
import resource
import time
from pathlib import Path

import pytest

from tests.unit.facts.store.samples import deployment
from upright.base.errors import StoreError
from upright.facts.store import DeploymentDir, write_atomically
from upright.facts.store.files import leftovers


def test_a_write_that_fails_leaves_the_old_file_and_nothing_beside(tmp_path: Path) -> None:
    file = tmp_path / "record.json"
    write_atomically(file, b"old")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))  # a disk that is full in the middle of the write
    try:
        with pytest.raises(StoreError, match=r"record\.json cannot be written: File too large"):
            write_atomically(file, b"new" * 1000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert file.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [file]


def test_a_directory_that_is_gone_is_told_by_name(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="gone/x cannot be written: No such file or directory"):
        write_atomically(tmp_path / "gone/x", b"")


def test_the_order_is_write_sync_rename_sync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rename before the sync may, after a power cut, leave an empty file under the new name."""
    done: list[str] = []
    sync, rename = os.fsync, Path.rename
    monkeypatch.setattr(os, "fsync", lambda fd: (done.append(f"sync {_what(fd)}"), sync(fd))[1])
    monkeypatch.setattr(Path, "rename", lambda path, to: (done.append("rename"), rename(path, to))[1])
    write_atomically(tmp_path / "x", b"content")
    assert done == ["sync file", "rename", "sync directory"]


def test_what_killed_writers_left_is_swept_in_time(directory: DeploymentDir) -> None:
    old, new = directory.path / ".box.json.1.tmp", directory.path / ".box.json.2.tmp"
    for path in (old, new):
        path.write_text("half")
    os.utime(old, (time.time() - 7200, time.time() - 7200))
    directory.write(deployment(directory.name))
    assert leftovers(directory.path) == [new]  # its writer may still be at work


def _what(descriptor: int) -> str:
    return "directory" if os.path.isdir(f"/proc/self/fd/{descriptor}") else "file"  # noqa: PTH112
