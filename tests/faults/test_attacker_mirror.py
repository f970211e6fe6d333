"""An index's mirror: it serves the files of `index search`, and may send whatever it likes under their names."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path

import pytest

from tests.unit.evidence.share.test_index import AT, Mirror, folder, keys, of, parts_of, pointer, served
from upright.base.errors import RecordError, UsageError
from upright.evidence.share.index_building import build_index
from upright.evidence.share.index_head import HEAD, MOST_HEAD_BYTES
from upright.evidence.share.index_reading import PinnedIndex, pin, pinned, search
from upright.evidence.share.pointers import unpacked
from upright.facts.records.base import canonical

__all__ = ["folder", "keys"]
NOT_PROMISED = (
    "that a mirror which keeps back new versions is noticed: what it shows is as old as it says",
    "that a figure in a pointer is true: `index fetch` brings the bundle, and `verify` derives it again",
)


@pytest.mark.promise("a version that was seen does not go back, and no two heads have the same one")
def test_a_mirror_that_goes_back(folder: Path, keys: Path) -> None:
    old = (folder / HEAD).read_bytes()
    build_index(folder, [pointer(5)], key=keys / "keeper", at=AT)
    with served(folder) as (url, _):
        search(of(url, keys), "kimi-k2.6", "rtx-pro-6000", 8)
        (folder / HEAD).write_bytes(old)
        with pytest.raises(RecordError, match="shows version 1, and 2 was seen before"):
            search(of(url, keys), "kimi-k2.6", "rtx-pro-6000", 8)


@pytest.mark.promise("a version that was seen does not go back, and no two heads have the same one")
def test_a_mirror_that_shows_two_heads_of_one_version(folder: Path, keys: Path, tmp_path: Path) -> None:
    with served(folder) as (url, _):
        search(of(url, keys), "kimi-k2.6", "rtx-pro-6000", 8)
        build_index(tmp_path / "other", [pointer(9)], key=keys / "keeper", at=AT)
        shutil.copy(tmp_path / "other" / HEAD, folder / HEAD)
        with pytest.raises(RecordError, match="two different heads are version 1"):
            search(of(url, keys), "kimi-k2.6", "rtx-pro-6000", 8)


@pytest.mark.promise("no file counts whose hash the signed head does not name")
def test_a_mirror_that_mixes_and_matches(folder: Path, keys: Path) -> None:
    bin_path, shard_path = parts_of(folder)
    others = [file for file in (folder / "shards").iterdir() if file.name not in shard_path]
    for path, other in ((shard_path, others[0].read_bytes()), (bin_path, (folder / shard_path).read_bytes())):
        with (
            served(folder, lies={path: other}) as (url, _),
            pytest.raises(RecordError, match="not what the signed head names"),
        ):
            search(of(url, keys), "kimi-k2.6", "rtx-pro-6000", 8)


@pytest.mark.promise("what a mirror sends is bounded, packed and unpacked")
def test_a_mirror_without_an_end(folder: Path, keys: Path) -> None:
    bin_path, shard_path = parts_of(folder)
    for path in (HEAD, bin_path, shard_path):
        with served(folder, endless=frozenset({path})) as (url, _), pytest.raises(RecordError, match="sent more than"):
            search(of(url, keys), "kimi-k2.6", "rtx-pro-6000", 8)


@pytest.mark.promise("what a mirror sends is bounded, packed and unpacked")
def test_a_mirror_that_sends_a_bomb(folder: Path, keys: Path) -> None:
    bomb = gzip.compress(b"0" * (64 << 20))
    with pytest.raises(RecordError, match="unpacks to more than any"):
        unpacked(bomb, "it")
    with served(folder, lies={HEAD: b"[" * MOST_HEAD_BYTES}) as (url, _), pytest.raises(RecordError, match="no head"):
        search(of(url, keys), "kimi-k2.6", "rtx-pro-6000", 8)


@pytest.mark.promise("a head counts by a pinned key alone, and an index on the network must have one")
def test_another_key_and_no_key(folder: Path, keys: Path) -> None:
    with served(folder) as (url, _):
        with pytest.raises(RecordError, match="that key is not pinned"):
            search(of(url, keys, "stranger"), "kimi-k2.6", "rtx-pro-6000", 8)
        head = json.loads((folder / HEAD).read_bytes())
        (folder / HEAD).write_bytes(canonical({**head, "signature": None}))
        with pytest.raises(RecordError, match="it is unsigned"):
            search(of(url, keys), "kimi-k2.6", "rtx-pro-6000", 8)
        head["signed"]["version"] = 99
        (folder / HEAD).write_bytes(canonical(head))
        with pytest.raises(RecordError, match="the signature is not of these bytes"):
            search(of(url, keys), "kimi-k2.6", "rtx-pro-6000", 8)


@pytest.mark.promise("a head counts by a pinned key alone, and an index on the network must have one")
def test_an_index_on_the_network_needs_a_key(folder: Path) -> None:
    with pytest.raises(UsageError, match="needs the key"):
        pin(PinnedIndex(name="public", url="https://example.org/index", keys=()))
    pin(PinnedIndex(name="company", url=str(folder), keys=()))
    pin(PinnedIndex(name="public", url="https://example.org/index", keys=("SHA256:x",)))
    assert [index.name for index in pinned()][:2] == ["company", "public"]


@pytest.mark.promise("a mirror sends nobody into the network of the person who asks: redirects are not followed")
@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_mirror_that_sends_elsewhere(status: int, folder: Path, keys: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with served(folder) as (inside, asked):

        def elsewhere(handler: Mirror) -> None:
            handler.send_response(status)
            handler.send_header("Location", f"{inside}{handler.path}")
            handler.end_headers()

        with served(folder, do_GET=elsewhere) as (url, _), pytest.raises(RecordError):
            search(of(url, keys), "kimi-k2.6", "rtx-pro-6000", 8)
    assert asked == []
