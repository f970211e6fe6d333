"""Room on the disk: refused before the first byte, with what is missing and where else there is room."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.loopback_hub import LoopbackHub
from tests.unit.serving.fetch.conftest import REPO, client
from upright.base.errors import FetchError
from upright.serving.fetch import artifact, fetch, fetch_need, need
from upright.serving.fetch.need import disk_space

DISK_BYTES = 512 << 10


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A real file system with room for half of what is wanted."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(folder)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("only root may mount a small disk")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_refused_with_what_is_missing_and_where_there_is_room(small_disk: Path, hub: LoopbackHub) -> None:
    wanted = fetch_need(REPO, folder=small_disk / "model", hub=client(hub))
    assert wanted.room.free_bytes == DISK_BYTES
    assert wanted.room.lacking_bytes == wanted.room.needed_bytes - DISK_BYTES > 0
    assert wanted.room.elsewhere[0].free_bytes > wanted.room.needed_bytes
    with pytest.raises(FetchError, match=r"needs .* and .* has 524 kB: .* are missing") as told:
        fetch(REPO, folder=small_disk / "model", hub=client(hub))
    assert wanted.room.elsewhere[0].folder in str(told.value.hint)
    assert hub.weight_bytes_sent == 0
    assert list(small_disk.iterdir()) == []


def test_a_disk_that_fills_on_the_way(small_disk: Path, hub: LoopbackHub, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel's own ENOSPC: what came stays, and a larger disk goes on with it."""
    monkeypatch.setattr(artifact, "refuse_without_space", lambda need: None)
    with pytest.raises(FetchError, match=r"No space left on device; .* are missing") as told:
        fetch(REPO, folder=small_disk / "model", hub=client(hub))
    assert "what came is kept" in str(told.value.hint)
    came = fetch_need(REPO, folder=small_disk / "model", hub=client(hub)).here_bytes
    assert came > DISK_BYTES // 2
    subprocess.run(["mount", "-o", f"remount,size={16 << 20}", str(small_disk)], check=True)
    before = hub.weight_bytes_sent
    done = fetch(REPO, folder=small_disk / "model", hub=client(hub))
    assert done.need.here_bytes == came
    assert hub.weight_bytes_sent - before <= done.need.size_bytes - came


def test_nothing_to_fetch_needs_no_room(tmp_path: Path) -> None:
    assert disk_space(tmp_path, 0).lacking_bytes == 0
    assert disk_space(tmp_path / "not/yet", 10**18).lacking_bytes > 0


def test_disks_with_too_little_are_not_offered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(need, "_mounts", lambda: [Path("/dev/shm"), Path("/nowhere")])
    small, large = disk_space(tmp_path, 10**18), os.statvfs("/dev/shm")
    assert small.elsewhere == ()
    free = large.f_bavail * large.f_frsize
    monkeypatch.setattr(need, "_existing", lambda folder: Path("/proc"))
    assert [each.folder for each in disk_space(tmp_path, min(free, 1 << 20)).elsewhere] == ["/dev/shm"]
