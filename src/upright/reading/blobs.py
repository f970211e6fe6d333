"""A file, here or far away -> its first bytes, fetched as a parser asks for them.

Parsers see a Window and never know whether it grows from a disk or from range requests.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from upright.errors import ReadError
from upright.units import size

HEADER_LIMIT_BYTES = 100_000_000
"""The longest header that is read: safetensors' own limit, and ten times the largest GGUF vocabulary."""


class Blob(Protocol):
    """A file whose ranges can be read."""

    @property
    def name(self) -> str: ...
    @property
    def size_bytes(self) -> int: ...
    def read(self, start: int, length: int) -> bytes: ...


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

    def read(self, start: int, length: int) -> bytes:
        try:
            with self.path.open("rb", buffering=0) as file:
                file.seek(start)
                return file.read(length) or b""
        except OSError as error:
            raise ReadError(f"cannot read {self.path}: {error.strerror}") from None


class Window:
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
        self._step_bytes *= 2

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
            raise ReadError(f"{self.blob.name} has a {what} longer than {size(HEADER_LIMIT_BYTES)}; refused")

    def _extend(self, end: int) -> None:
        end = min(end, self.blob.size_bytes, HEADER_LIMIT_BYTES)
        while len(self.data) < end:
            piece = self.blob.read(len(self.data), end - len(self.data))
            if not piece:
                raise ReadError(f"{self.blob.name} ended at byte {len(self.data):,} while it was being read")
            self.data += piece
