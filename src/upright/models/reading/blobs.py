"""Files that are read by ranges, local or remote: only as many bytes as a parser asks for.

Parsers see a Window and never know whether it grows from a disk or from range requests.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from upright.base.bounds.files import open_file
from upright.base.errors import ReadError
from upright.base.units import format_size

HEADER_LIMIT_BYTES = 64_000_000
"""The longest header that is read: 300,000 tensors in one file, or six of the largest GGUF vocabularies."""


_PIECE_BYTES = 1 << 20
_LARGEST_STEP_BYTES = 1 << 22


class Blob(Protocol):
    """A file whose ranges can be read."""

    @property
    def name(self) -> str: ...
    @property
    def size_bytes(self) -> int: ...
    def pieces(self, start: int, length: int) -> Iterator[bytes]:
        """The bytes of a range in order, in pieces of any size; fewer only at the end of the file."""
        ...


class LocalBlob:
    """A file on this machine."""

    def __init__(self, path: Path, name: str | None = None) -> None:
        self.path = path
        self.name = name or path.name
        try:
            if not path.is_file():
                raise ReadError(f"{path} is not a regular file")
            self.size_bytes = path.stat().st_size
        except OSError as error:
            raise ReadError(f"cannot read {path}: {error.strerror}") from None

    def pieces(self, start: int, length: int) -> Iterator[bytes]:
        try:
            with open_file(self.path) as file:
                file.seek(start)
                while length > 0 and (piece := file.read(min(length, _PIECE_BYTES))):
                    yield piece
                    length -= len(piece)
        except OSError as error:
            raise ReadError(f"cannot read {self.path}: {error.strerror}") from None


class BlobWindow:
    """The beginning of a blob, as much of it as was needed so far."""

    def __init__(self, blob: Blob, first_bytes: int) -> None:
        self.blob = blob
        self.data = bytearray()
        self._step_bytes = first_bytes

    def need(self, end: int, what: str = "header") -> None:
        """Makes sure that `data[:end]` is there; reads ahead, since a header is asked for in small pieces."""
        if end <= len(self.data):
            return
        self._refuse_impossible(end, what)
        self._extend(max(end, len(self.data) + self._step_bytes))
        self._step_bytes = min(2 * self._step_bytes, _LARGEST_STEP_BYTES)

    def need_exactly(self, end: int, what: str = "header") -> None:
        """The same, without reading ahead."""
        if end > len(self.data):
            self._refuse_impossible(end, what)
            self._extend(end)

    def _refuse_impossible(self, end: int, what: str) -> None:
        if end > self.blob.size_bytes:
            raise ReadError(
                f"{self.blob.name} is truncated or broken: its {what} would end at byte {end:,}, "
                f"the file at {self.blob.size_bytes:,}",
                hint="download the file again",
            )
        if end > HEADER_LIMIT_BYTES:
            raise ReadError(f"{self.blob.name} has a {what} longer than {format_size(HEADER_LIMIT_BYTES)}; refused")

    def _extend(self, end: int) -> None:
        end = min(end, self.blob.size_bytes, HEADER_LIMIT_BYTES)
        for piece in self.blob.pieces(len(self.data), end - len(self.data)):
            self.data += piece
        if len(self.data) < end:
            raise ReadError(f"{self.blob.name} ended at byte {len(self.data):,} while it was being read")
