"""Builds an index: only the shards and bins of new pointers and the head are written.

Files are named by their hash and never changed, so that every cache may keep them; the head is written last.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from upright.base.bounds.files import file_bytes, file_lines
from upright.base.errors import RecordError, UsageError
from upright.evidence.share.index_head import (
    HEAD,
    Bin,
    IndexHead,
    ShardFile,
    bin_path,
    packed_bin,
    read_bin,
    read_head,
    shard_path,
    signed_head,
)
from upright.evidence.share.pointers import MOST_POINTERS, Pointer, bin_of, packed, pointer_of, unpacked
from upright.facts.records.base import Part
from upright.facts.store import write_atomically


class BuiltIndex(Part):
    """What a build did."""

    version: int
    """Of the head."""
    added: int
    """Pointers that were not there before."""
    pointers: int
    """In all."""
    shards_written: int
    """Files of shards that are new."""
    bins_written: int
    """Bins that are new."""


def build_index(
    folder: Path, pointers: Iterable[Pointer], *, key: Path | None, at: str, revoke: dict[str, str] | None = None
) -> BuiltIndex:
    """Adds what is not there yet. What is revoked keeps its place and says why."""
    head = _head(folder)
    waiting: defaultdict[str, defaultdict[str, list[Pointer]]] = defaultdict(lambda: defaultdict(list))
    for pointer in pointers:
        waiting[bin_of(pointer.key)][pointer.key].append(pointer)
    revoke = dict(revoke or {})
    numbers = sorted({*waiting, *(head.bins if revoke else ())})
    bins, added, written, revoked = dict(head.bins), 0, 0, 0
    for number in numbers:
        content = _bin(folder, head, number)
        shards = dict(content.shards)
        for name in sorted({*waiting[number], *(shards if revoke else ())}):
            files, new, gone = _shard(folder, shards.get(name, ()), waiting[number].get(name, []), revoke)
            written += len({file.sha256 for file in files} - {file.sha256 for file in shards.get(name, ())})
            shards[name], added, revoked = files, added + new, revoked + gone
        raw = packed_bin(Bin(shards=shards))
        bins[number] = _named(folder, raw, number)
    after = IndexHead(
        version=head.version + 1, at=at, pointers=head.pointers + added, revoked=head.revoked + revoked, bins=bins
    )
    if revoke and not revoked:
        raise UsageError("no pointer of this index has that identity, or it is revoked already")
    write_atomically(folder / HEAD, signed_head(after, key))
    changed = sum(after.bins[number] != head.bins.get(number) for number in after.bins)
    return BuiltIndex(
        version=after.version, added=added, pointers=after.pointers, shards_written=written, bins_written=changed
    )


def read_pointers(files: Iterable[Path]) -> Iterable[Pointer]:
    for file in files:
        try:
            yield from (_submitted(pointer_of(line, str(file)), file) for line in file_lines(file) if line.strip())
        except OSError as error:
            raise RecordError(f"{file} cannot be read: {error.strerror}") from None


def _submitted(pointer: Pointer, file: Path) -> Pointer:
    """Who hands one in can neither revoke it nor say that others came to the same."""
    if pointer.level == "reproduced" or pointer.revoked is not None:
        state = "revoked" if pointer.revoked is not None else pointer.level
        raise RecordError(
            f"{file}: {pointer.identity[:12]} is refused: it says of itself that it is {state}",
            hint="upright share index point writes pointers; --revoke revokes",
        )
    return pointer


def _head(folder: Path) -> IndexHead:
    for name in ("bins", "shards"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    if not (folder / HEAD).exists():
        return IndexHead(version=0, at="", pointers=0, revoked=0, bins={})
    return read_head(file_bytes(folder / HEAD), str(folder / HEAD), None)


def _bin(folder: Path, head: IndexHead, number: str) -> Bin:
    if number not in head.bins:
        return Bin(shards={})
    path = bin_path(number, head.bins[number])
    return read_bin(file_bytes(folder / path), path)


def _shard(
    folder: Path, files: tuple[ShardFile, ...], new: list[Pointer], revoke: dict[str, str]
) -> tuple[tuple[ShardFile, ...], int, int]:
    """Full files stay as they are, unless a pointer in one is revoked."""
    parts = [unpacked(file_bytes(folder / shard_path(file.sha256)), file.sha256) for file in files]
    known = {pointer.identity for part in parts for pointer in part}
    fresh = list({pointer.identity: pointer for pointer in new if pointer.identity not in known}.values())
    gone = 0
    if revoke:
        gone = sum(pointer.identity in revoke and not pointer.revoked for part in parts for pointer in part)
        parts = [tuple(_revoked(pointer, revoke) for pointer in part) for part in parts] if gone else parts
    last = [*parts.pop(), *fresh] if parts and fresh and len(parts[-1]) < MOST_POINTERS else fresh
    parts += [tuple(last[start : start + MOST_POINTERS]) for start in range(0, len(last), MOST_POINTERS)]
    return tuple(_written(folder, part) for part in parts), len(fresh), gone


def _revoked(pointer: Pointer, revoke: dict[str, str]) -> Pointer:
    if pointer.identity not in revoke or pointer.revoked:
        return pointer
    return pointer.model_copy(update={"revoked": revoke[pointer.identity]})


def _written(folder: Path, part: tuple[Pointer, ...]) -> ShardFile:
    raw = packed(part)
    sha256 = hashlib.sha256(raw).hexdigest()
    file = folder / shard_path(sha256)
    if not file.exists():
        write_atomically(file, raw)
    return ShardFile(sha256=sha256, pointers=len(part))


def _named(folder: Path, raw: bytes, number: str) -> str:
    sha256 = hashlib.sha256(raw).hexdigest()
    file = folder / bin_path(number, sha256)
    if not file.exists():
        write_atomically(file, raw)
    return sha256
