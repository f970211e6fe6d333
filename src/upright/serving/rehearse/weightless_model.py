"""A model without weights for a rehearsal: real configuration, tokenizer and headers.

A GGUF becomes a file of its real length that is a hole after the header: a terabyte takes a few megabytes of disk.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from upright.base.errors import ReadError
from upright.models.reading import gguf
from upright.models.reading.blobs import Blob, BlobWindow
from upright.models.reading.hub import Hub, Traffic
from upright.models.reading.places import ArtifactPlace
from upright.models.reading.source import locate
from upright.serving.fetch.need import is_companion

_FIRST_BYTES = 1 << 20
_LARGEST_SMALL_BYTES = 64 << 20


@dataclass(frozen=True)
class WeightlessModel:
    """A model without its weights."""

    path: str
    """What the engine is given: the first GGUF file, or the folder."""
    fetched_bytes: int
    """What was read of the original."""
    written_bytes: int
    """What it takes on the disk."""


def fetch_weightless(
    source: str, folder: Path, *, hub: Hub | None = None, traffic: Traffic | None = None
) -> WeightlessModel:
    with locate(source, hub=hub, traffic=traffic) as location:
        place, choice = location.place, location.choice
        if choice.format == "config":
            raise ReadError(f"{source} has no weights, only a configuration: there is nothing to start")
        if choice.format == "gguf":
            read = sum(_hollow(place.blob(name), folder / Path(name).name) for name in choice.files)
            return WeightlessModel(str(folder / Path(choice.files[0]).name), read, _on_disk(folder))
        read = sum(_copied(place, name, folder) for name in place.names())
        return WeightlessModel(str(folder), read, _on_disk(folder))


def _hollow(blob: Blob, path: Path) -> int:
    window = BlobWindow(blob, _FIRST_BYTES)
    header = gguf.parse(window)
    window.need_exactly(min(header.header_bytes, blob.size_bytes))
    path.write_bytes(window.data[: header.header_bytes])
    os.truncate(path, blob.size_bytes)
    return len(window.data)


def _copied(place: ArtifactPlace, name: str, folder: Path) -> int:
    """An index of weights would only name files that are not there."""
    if not is_companion(name) or name.endswith(".index.json") or "/" in name:
        return 0
    blob = place.blob(name)
    if blob.size_bytes > _LARGEST_SMALL_BYTES:
        return 0
    with (folder / name).open("wb") as file:
        for piece in blob.pieces(0, blob.size_bytes):
            file.write(piece)
    return blob.size_bytes


def _on_disk(folder: Path) -> int:
    return sum(path.stat().st_blocks * 512 for path in folder.iterdir())
