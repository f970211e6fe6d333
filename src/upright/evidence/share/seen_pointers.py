"""Pointers that were searched before, from the signed heads that are kept here.

A file in the cache counts only if the head that was kept last names it: an older one may lack a revocation.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from upright.base.errors import RecordError
from upright.evidence.share.index_head import (
    HEAD,
    MOST_FILE_BYTES,
    MOST_HEAD_BYTES,
    bin_path,
    read_bin,
    read_head,
    refuse_wrong_hash,
    shard_path,
)
from upright.evidence.share.index_reading import PinnedIndex, cache_of, index_bytes, pinned
from upright.evidence.share.pointers import Pointer, unpacked


@dataclass(frozen=True)
class SeenPointer:
    """A pointer, and the index that names it."""

    index: PinnedIndex
    pointer: Pointer


def seen_pointers(beginning: str) -> tuple[SeenPointer, ...]:
    """Of every index whose kept head still holds; one that does not says nothing."""
    return tuple(
        SeenPointer(index, pointer)
        for index in pinned()
        for pointer in seen_in(index)
        if pointer.identity.startswith(beginning)
    )


def seen_in(index: PinnedIndex) -> tuple[Pointer, ...]:
    """What was read of it here, or lies in its folder; nothing is fetched."""
    try:
        return tuple(_pointers(index))
    except RecordError:
        return ()


def _pointers(index: PinnedIndex) -> Iterator[Pointer]:
    folder = cache_of(index) if index.remote else Path(index.url)
    trusted = frozenset(index.keys) if index.keys else None
    head = read_head(index_bytes(folder / HEAD, MOST_HEAD_BYTES), str(folder / HEAD), trusted)
    for number, sha256 in head.bins.items():
        if (packed := _kept(folder, bin_path(number, sha256), sha256)) is None:
            continue
        for key, files in read_bin(packed, bin_path(number, sha256)).shards.items():
            for file in files:
                path = shard_path(file.sha256)
                if (raw := _kept(folder, path, file.sha256)) is not None:
                    yield from (pointer for pointer in unpacked(raw, path) if pointer.key == key)


def _kept(folder: Path, path: str, sha256: str) -> bytes | None:
    """None of what was never read, or is not what the head names."""
    try:
        return refuse_wrong_hash(index_bytes(folder / path, MOST_FILE_BYTES), sha256, path)
    except RecordError:
        return None
