"""Files of an artifact in a local directory; `hub.Repository` is the same for a repository."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from upright.base.errors import ReadError
from upright.base.units import format_size
from upright.models.reading.blobs import Blob, LocalBlob


class ArtifactPlace(Protocol):
    """Where the files of an artifact are."""

    @property
    def title(self) -> str:
        """How messages name it."""
        ...

    @property
    def revision(self) -> str | None: ...
    def names(self) -> list[str]: ...
    def blob(self, name: str) -> Blob: ...


class LocalDirectory:
    """A directory, and its sub-directories one level deep (GGUF repositories keep each quant in one)."""

    def __init__(self, path: Path, revision: str | None = None) -> None:
        self.path = path
        self.title = str(path)
        self.revision = revision

    def names(self) -> list[str]:
        try:
            paths = [*self.path.glob("*"), *self.path.glob("*/*.gguf")]
            return [path.relative_to(self.path).as_posix() for path in paths if path.is_file()]
        except OSError as error:
            raise ReadError(f"cannot read {self.path}: {error.strerror}") from None

    def blob(self, name: str) -> Blob:
        return LocalBlob(self.path / name, name)


def read_small(place: ArtifactPlace, name: str, limit_bytes: int) -> bytes:
    """A whole file that must not be long."""
    blob = place.blob(name)
    if blob.size_bytes > limit_bytes:
        raise ReadError(f"{name} of {place.title} has {format_size(blob.size_bytes)}; refused")
    return b"".join(blob.pieces(0, blob.size_bytes))
