"""Where a file of a repository lies on this disk, unfinished and whole.

The hub cache's own layout, so that vLLM, SGLang and `hf` find what was fetched and we find what they fetched; or a
plain folder, where a person wants the files themselves.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from upright.base.bounds.files import open_lock, take_lock
from upright.base.errors import FetchError
from upright.facts.store import write_atomically
from upright.models.reading.cache import cache_folder, repository_folder
from upright.models.reading.hub import ListedFile
from upright.serving.fetch.partial import PartialFile


@dataclass(frozen=True)
class FetchLayout:
    """Where one revision's files go."""

    folder: Path
    """Where they have their own names."""
    blobs: Path | None
    """Where they are named by their hash; None in a plain folder."""
    parts: Path
    """Where unfinished ones lie."""
    locks: Path
    """Where those who fetch tell each other."""
    ref: Path | None = None
    """The file that says which commit the branch is; None if a commit was named, or in a plain folder."""

    @property
    def root(self) -> Path:
        """What people call the place."""
        return self.folder if self.blobs is None else self.blobs.parent

    def key(self, file: ListedFile) -> str:
        """Files of one key are one file to fetch: in the cache those of one content, in a folder each by itself."""
        content = content_key(file)
        return content if self.blobs else f"{hashlib.sha256(file.name.encode()).hexdigest()[:16]}-{content}"

    def whole(self, file: ListedFile) -> bool:
        """Whether it is here, by its length. In the cache its name is its hash; a plain folder's are hashed again."""
        return any(_length(path) == file.size_bytes for path in self._places(file))

    def partial(self, file: ListedFile) -> PartialFile:
        return PartialFile(self.parts / f"{self.key(file)}.part", file.size_bytes)

    def place(self, file: ListedFile, fetched: Path | None = None) -> None:
        """Give the file its name: the last step, so that a name is always a whole file."""
        target = self.folder / file.name
        target.parent.mkdir(parents=True, exist_ok=True)
        if self.blobs is None:
            if fetched is not None:
                fetched.replace(target)
            return
        blob = self.blobs / content_key(file)
        if fetched is not None:
            fetched.replace(blob)
        if _length(target) == file.size_bytes:
            return
        beside = target.with_name(f".{target.name}.{os.getpid()}.tmp")
        beside.unlink(missing_ok=True)
        try:
            beside.symlink_to(os.path.relpath(blob, target.parent))
        except OSError:  # a disk without symbolic links
            blob.rename(beside)
        beside.replace(target)

    def forget(self, file: ListedFile) -> None:
        """A whole file whose bytes are wrong."""
        for path in self._places(file):
            path.unlink(missing_ok=True)

    def name_revision(self) -> None:
        """The branch is this commit now."""
        if self.ref is not None:
            self.ref.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(self.ref, self.folder.name.encode())

    @contextmanager
    def alone(self, key: str, what: str) -> Iterator[None]:
        """Holds the lock of that name; huggingface_hub locks the same file before it fetches the same blob."""
        self.locks.mkdir(parents=True, exist_ok=True)
        descriptor = open_lock(self.locks / f"{key}.lock", 0o644)
        try:
            if not take_lock(descriptor):
                raise FetchError(f"{what} is being fetched by another process", hint="wait until it is done")
            yield
        finally:
            os.close(descriptor)

    def _places(self, file: ListedFile) -> list[Path]:
        return [self.folder / file.name, *([] if self.blobs is None else [self.blobs / content_key(file)])]


def cache_layout(repo: str, commit: str, named: str) -> FetchLayout:
    root = repository_folder(repo)
    return FetchLayout(
        folder=root / "snapshots" / commit,
        blobs=root / "blobs",
        parts=root / "blobs",
        locks=cache_folder() / ".locks" / root.name,
        ref=None if named == commit else root / "refs" / named,
    )


def folder_layout(folder: Path) -> FetchLayout:
    folder = folder.expanduser().absolute()
    return FetchLayout(folder=folder, blobs=None, parts=folder / ".fetching", locks=folder / ".fetching")


def content_key(file: ListedFile) -> str:
    """What the cache calls the content: the hub's ETag, which is its hash."""
    return file.sha256 or file.git_id or hashlib.sha256(f"{file.name} {file.size_bytes}".encode()).hexdigest()


def _length(path: Path) -> int | None:
    try:
        return path.stat().st_size
    except OSError:
        return None
