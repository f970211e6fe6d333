"""What was searched before, several indexes at once, and keys that change."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.unit.evidence.share.test_index import AT, folder, keys, of, pointer, served
from upright.base.errors import RecordError, UsageError
from upright.base.home import home
from upright.evidence.share.index_building import build_index
from upright.evidence.share.index_head import HEAD
from upright.evidence.share.index_reading import PinnedIndex, cache_of, pin, search
from upright.evidence.share.index_requests import known_bundle, search_indexes
from upright.evidence.share.pointers import packed

__all__ = ["folder", "keys"]
REASON = "its author took it back"


def asked_for(identity: str) -> str | None:
    return known_bundle(identity).pointer.revoked


def test_a_revocation_is_not_hidden_by_an_older_file(folder: Path, keys: Path) -> None:
    with served(folder) as (url, _):
        index = of(url, keys)
        pin(index)
        for _ in range(2):
            search(index, "kimi-k2.6", "rtx-pro-6000", 8)
            assert asked_for(pointer(1).identity) in (None, REASON)
            if asked_for(pointer(1).identity) is None:
                build_index(folder, [], key=keys / "keeper", at=AT, revoke={pointer(1).identity: REASON})
    assert len(list(cache_of(index).glob("shards/*"))) == 2, "the older file is still there"
    assert asked_for(pointer(1).identity) == REASON


def test_a_file_that_no_head_names_says_nothing(folder: Path, keys: Path) -> None:
    shards = home() / "index-cache" / "0" / "shards"
    shards.mkdir(parents=True)
    (shards / f"{'0' * 64}.jsonl.gz").write_bytes(packed([pointer(7)]))
    with pytest.raises(UsageError, match="was searched here"):
        known_bundle(pointer(7).identity)


def test_one_index_that_revokes_is_enough(folder: Path, keys: Path, tmp_path: Path) -> None:
    build_index(tmp_path / "other", [pointer(1)], key=None, at=AT)
    build_index(tmp_path / "other", [], key=None, at=AT, revoke={pointer(1).identity: REASON})
    pin(PinnedIndex(name="one", url=str(folder), keys=()))
    pin(PinnedIndex(name="two", url=str(tmp_path / "other"), keys=()))
    assert asked_for(pointer(1).identity) == REASON


@pytest.mark.parametrize("beginning", ["", "0", "0" * 11, "g" * 12, "0" * 12])
def test_a_beginning_that_names_no_single_bundle(folder: Path, beginning: str) -> None:
    pin(PinnedIndex(name="one", url=str(folder), keys=()))
    with pytest.raises(UsageError, match=r"too short|several bundles"):
        known_bundle(beginning)


def test_one_broken_index_does_not_silence_the_others(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "broken").mkdir()
    head = json.loads((folder / HEAD).read_bytes())
    head["signed"]["at"] = "\ud800"
    (tmp_path / "broken" / HEAD).write_text(json.dumps(head))
    pin(PinnedIndex(name="broken", url=str(tmp_path / "broken"), keys=()))
    pin(PinnedIndex(name="good", url=str(folder), keys=()))
    answers = search_indexes("kimi-k2.6", "rtx-pro-6000", 8, None, offline=False)
    assert {answer.index.name for answer in answers.indexed} >= {"good"}
    assert [fault for fault in answers.faults if "broken: head.json is no head" in fault] == list(answers.faults)
    assert answers.faults
    with pytest.raises(RecordError, match="no head"):
        search_indexes("kimi-k2.6", "rtx-pro-6000", 8, "broken", offline=False)


def test_a_keeper_with_a_new_key_is_read_again(folder: Path, keys: Path) -> None:
    with served(folder) as (url, _):
        search(of(url, keys), "kimi-k2.6", "rtx-pro-6000", 8)
        build_index(folder, [pointer(5)], key=keys / "stranger", at=AT)
        assert search(of(url, keys, "stranger"), "kimi-k2.6", "rtx-pro-6000", 8).version == 2
