"""Counters of a file that is being fetched: what is believed after a kill, a power cut, and a hand that meddled."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from upright.serving.fetch import partial
from upright.serving.fetch.partial import PartialFile

SIZE = 150_000
CHUNK = 65_536


@pytest.fixture
def begun(tmp_path: Path) -> PartialFile:
    """One chunk whole, one begun, one not."""
    file = PartialFile(tmp_path / "x.part", SIZE)
    file.open()
    file.write(0, b"a" * 40_000)
    file.write(0, b"b" * (CHUNK - 40_000))
    file.write(1, b"c" * 1_000)
    return file


def test_nothing_that_was_counted_is_asked_for_again(begun: PartialFile) -> None:
    later = PartialFile(begun.path, SIZE)
    assert later.fetched_bytes() == CHUNK + 1_000
    later.open()
    assert later.unfinished() == [1, 2]
    assert later.span(1) == (CHUNK + 1_000, 2 * CHUNK)
    assert later.whole_until() == CHUNK + 1_000
    assert later.read(39_999, 2) == b"ab"


def test_what_others_may_judge_and_close_is_no_longer_written(
    begun: PartialFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    really, counted = os.pwrite, list[int]()

    def watched(*call) -> int:
        written = really(*call)
        counted.append(begun.whole_until())
        return written

    monkeypatch.setattr(os, "pwrite", watched)
    begun.write(1, b"d" * (CHUNK - 1_000))
    begun.write(2, b"e" * (SIZE - 2 * CHUNK))
    assert max(counted) < SIZE == begun.whole_until()
    assert counted[1] == CHUNK + 1_000, "a chunk was told whole before its counter was written"


def test_after_another_boot_only_whole_chunks_are_believed(begun: PartialFile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partial, "_boot_id", lambda: b"another".ljust(36))
    assert PartialFile(begun.path, SIZE).fetched_bytes() == CHUNK


@pytest.mark.parametrize(
    "change",
    [
        lambda file: file.with_suffix(".chunks").unlink(),
        lambda file: file.with_suffix(".chunks").write_bytes(b"upright1"),
        lambda file: file.with_suffix(".chunks").write_bytes(b"\xff" * 88),
        lambda file: file.write_bytes(b"short"),
        lambda file: file.unlink(),
    ],
    ids=["no counters", "torn counters", "noise", "short file", "no file"],
)
def test_what_does_not_fit_is_begun_anew(begun: PartialFile, change) -> None:
    change(begun.path)
    assert PartialFile(begun.path, SIZE).fetched_bytes() == 0
    assert PartialFile(begun.path, SIZE).unfinished() == [0, 1, 2]


def test_another_length_is_another_file(begun: PartialFile) -> None:
    assert PartialFile(begun.path, SIZE + 1).fetched_bytes() == 0


def test_a_counter_beyond_its_chunk_is_not_believed(begun: PartialFile) -> None:
    counters = begun.path.with_suffix(".chunks")
    raw = bytearray(counters.read_bytes())
    raw[-16:-8] = (10**9).to_bytes(8, "little")
    counters.write_bytes(raw)
    assert PartialFile(begun.path, SIZE).fetched_bytes() == CHUNK


def test_an_empty_file_is_whole_at_once(tmp_path: Path) -> None:
    file = PartialFile(tmp_path / "empty.part", 0)
    file.open()
    assert file.unfinished() == []
    assert file.whole_until() == 0
    file.finish()
    assert file.path.read_bytes() == b""
