"""Reads an index: head, bin and shard, each held against a hash that a pinned key signed.

Mirrors may lie: a head of a lower version, of another content under the same version, or with fewer revocations than
were seen is refused; so are files that are not what the head names, that are too long, or that do not end.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from upright.base import bounds
from upright.base.bounds.bounded_json import parse_json
from upright.base.bounds.errors import ExceededError, OverdueError
from upright.base.bounds.files import file_bytes
from upright.base.errors import RecordError, UsageError
from upright.base.home import home, make_private
from upright.evidence.share.bundle_urls import refuse_bundle_url
from upright.evidence.share.index_head import (
    HEAD,
    MOST_FILE_BYTES,
    MOST_HEAD_BYTES,
    IndexHead,
    bin_path,
    read_bin,
    read_head,
    refuse_wrong_hash,
    shard_path,
)
from upright.evidence.share.pointers import Pointer, bin_of, shard_key, unpacked
from upright.evidence.share.signing import LONGEST_SIGNATURE
from upright.evidence.share.statement import MOST_BYTES, identity_of
from upright.facts.records.base import Part, canonical
from upright.facts.store import write_atomically

_SECONDS = 20.0
SHIPPED = "shipped"
"""The index that comes with the package."""
SEEDS = Path(__file__).parent / "seeds"
"""Its folder: published reports as claims, made by scripts/make-seed-bundles."""


class PinnedIndex(Part):
    """An index that this person reads, and whose keys they trust."""

    name: str
    """What they call it."""
    url: str
    """Where it lies: http(s), or a folder."""
    keys: tuple[str, ...]
    """Fingerprints; empty for a folder of one's own."""
    learn: bool = False
    """Whether plans say what its bundles measured."""

    @property
    def remote(self) -> bool:
        return "://" in self.url

    @property
    def shipped(self) -> bool:
        """Its files came with the program: nothing is remembered of them, so that another version may bring others."""
        return self.name == SHIPPED


@dataclass
class ReadTotals:
    """What one search took."""

    files: int = 0
    bytes: int = 0
    offline: bool = False


@dataclass(frozen=True)
class IndexedPointers:
    """Pointers of one shard of one index, the newest first."""

    index: PinnedIndex
    version: int
    at: str
    pointers: tuple[Pointer, ...]
    earlier: int
    """Pointers in older files of the shard, which were not read."""
    reading: ReadTotals

    def told(self) -> dict[str, Any]:
        return {
            "index": self.index.name, "version": self.version, "at": self.at, "earlier": self.earlier,
            "files_read": self.reading.files, "bytes_read": self.reading.bytes, "offline": self.reading.offline,
            "pointers": [pointer.model_dump(mode="json") for pointer in self.pointers],
        }  # fmt: skip


def pinned() -> tuple[PinnedIndex, ...]:
    """Those that were added, and the one that the package brings."""
    ours = (PinnedIndex(name=SHIPPED, url=str(SEEDS), keys=()),) if (SEEDS / HEAD).exists() else ()
    try:
        kept = parse_json(file_bytes(home() / "indexes.json"))
        return (*(PinnedIndex.model_validate(entry) for entry in kept), *ours)
    except OSError:
        return ours
    except ValueError:
        raise RecordError(
            f"{home() / 'indexes.json'} cannot be read", hint="remove it, and add the indexes again"
        ) from None


def pin(index: PinnedIndex) -> None:
    if not index.keys and index.remote:
        raise UsageError("an index on the network needs the key that its head is signed with", hint="--key FILE")
    if index.shipped:
        raise UsageError(f"{SHIPPED} is the index that comes with upright", hint="give yours another name")
    kept = [entry for entry in pinned() if entry.name not in (index.name, SHIPPED)]
    make_private(home())
    text = json.dumps([entry.model_dump(mode="json") for entry in (*kept, index)], indent=2)
    write_atomically(home() / "indexes.json", text.encode())


def search(index: PinnedIndex, model: str, gpu: str | None, gpus: int, *, offline: bool = False) -> IndexedPointers:
    """IndexHead, bin, shard; what was read before and did not change is not read again."""
    reading, key = ReadTotals(), shard_key(model, gpu, gpus)
    head = _head(index, reading, offline=offline)
    number = bin_of(key)
    if number not in head.bins:
        return IndexedPointers(index, head.version, head.at, (), 0, reading)
    sha256 = head.bins[number]
    path = bin_path(number, sha256)
    files = read_bin(_file(index, path, sha256, reading, offline=offline), path).shards.get(key, ())
    if not files:
        return IndexedPointers(index, head.version, head.at, (), 0, reading)
    last = files[-1]
    raw = _file(index, shard_path(last.sha256), last.sha256, reading, offline=offline)
    pointers = unpacked(raw, shard_path(last.sha256))
    if any(pointer.key != key for pointer in pointers):
        raise RecordError(f"{index.name} is refused: a shard holds pointers of another")
    earlier = sum(file.pointers for file in files[:-1])
    return IndexedPointers(index, head.version, head.at, tuple(reversed(pointers)), earlier, reading)


def fetch_bundle(index: PinnedIndex, pointer: Pointer) -> tuple[bytes, bytes | None]:
    """From where its author keeps it, and its signature if the index says that it has one; nothing but the bytes that
    the pointer names."""
    url = pointer.url
    if not index.remote and "://" not in url:
        url = str(Path(index.url) / url)
    refuse_bundle_url(url, index.url)
    content = read_from(url, MOST_BYTES, ReadTotals())
    if identity_of(content) != pointer.identity:
        raise RecordError(f"{pointer.url} is refused: it is not the bundle that the index names")
    return content, signature_at(url, pointer)


def signature_at(url: str, pointer: Pointer) -> bytes | None:
    """Beside the bundle; None if nobody signed it."""
    return read_from(f"{url}.sig", LONGEST_SIGNATURE, ReadTotals()) if pointer.signer is not None else None


def _head(index: PinnedIndex, reading: ReadTotals, *, offline: bool) -> IndexHead:
    trusted = frozenset(index.keys) if index.keys else None
    if index.shipped:
        return read_head(read_from(f"{index.url}/{HEAD}", MOST_HEAD_BYTES, reading), f"{index.name}: {HEAD}", trusted)
    kept = cache_of(index) / HEAD
    before = _kept_head(kept, trusted)
    if offline:
        if before is None:
            raise UsageError(f"{index.name} was never read here", hint="once without --offline")
        reading.offline = True
        return before
    raw = read_from(f"{index.url}/{HEAD}", MOST_HEAD_BYTES, reading)
    head = read_head(raw, f"{index.name}: {HEAD}", trusted)
    if before is not None:
        _refuse_going_back(index, before, head)
    make_private(kept.parent)
    write_atomically(kept, raw)
    return head


def _kept_head(kept: Path, trusted: frozenset[str] | None) -> IndexHead | None:
    """What was seen last; None if it was signed by a key that is not pinned any more, or cannot be read."""
    try:
        return read_head(index_bytes(kept, MOST_HEAD_BYTES), str(kept), trusted)
    except RecordError:
        return None


def _refuse_going_back(index: PinnedIndex, before: IndexHead, head: IndexHead) -> None:
    if head.version < before.version:
        raise RecordError(
            f"{index.name} is refused: it shows version {head.version}, and {before.version} was seen before",
            hint="a mirror is late, or lies; --offline reads what was seen",
        )
    same = canonical(head.model_dump(mode="json")) == canonical(before.model_dump(mode="json"))
    if head.version == before.version and not same:
        raise RecordError(f"{index.name} is refused: two different heads are version {head.version}")
    if head.revoked < before.revoked:
        raise RecordError(f"{index.name} is refused: something that was revoked counts again")


def _file(index: PinnedIndex, path: str, sha256: str, reading: ReadTotals, *, offline: bool) -> bytes:
    if index.shipped:
        return refuse_wrong_hash(
            read_from(f"{index.url}/{path}", MOST_FILE_BYTES, reading), sha256, f"{index.name}: {path}"
        )
    kept = cache_of(index) / path
    if kept.exists():
        try:
            content = index_bytes(kept, MOST_FILE_BYTES)
            return refuse_wrong_hash(content, sha256, path)
        except RecordError:
            kept.unlink()
    if offline:
        raise UsageError(f"{index.name}: this part was never read here", hint="once without --offline")
    content = refuse_wrong_hash(
        read_from(f"{index.url}/{path}", MOST_FILE_BYTES, reading), sha256, f"{index.name}: {path}"
    )
    make_private(kept.parent)
    write_atomically(kept, content)
    return content


def cache_of(index: PinnedIndex) -> Path:
    return home() / "index-cache" / identity_of(f"{index.name} {index.url}".encode())[:16]


def read_from(url: str, most_bytes: int, reading: ReadTotals) -> bytes:
    """Of an address or a folder's file; no byte more than any such file has."""
    content = _get_http(url, most_bytes) if "://" in url else index_bytes(Path(url), most_bytes)
    reading.files += 1
    reading.bytes += len(content)
    return content


def index_bytes(path: Path, most_bytes: int) -> bytes:
    """Of a file of an index or a catalogue."""
    try:
        return file_bytes(path, most_bytes)
    except OSError as error:
        raise RecordError(f"{path} cannot be read: {error.strerror}") from None


def _get_http(url: str, most_bytes: int) -> bytes:
    import httpx2

    if not url.startswith(("http://", "https://")):
        raise UsageError(f"{url} is neither http nor a folder")
    try:
        with (
            bounds.time_limit(_SECONDS),
            bounds.client(timeout=_SECONDS) as client,
            client.stream("GET", url) as response,
        ):
            if response.status_code != 200:
                raise RecordError(f"{url} answers {response.status_code}")
            return bounds.body(response, most_bytes)
    except (httpx2.HTTPError, httpx2.InvalidURL, ExceededError, OverdueError) as error:
        raise RecordError(
            f"{url} {bounds.describe_failure(error)}", hint="--offline reads what was seen before"
        ) from None
