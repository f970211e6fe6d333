"""Files written atomically, and never outside their folder."""

from __future__ import annotations

import os
import secrets
import time
from pathlib import Path

from upright.base.errors import StoreError, UsageError

_STALE_SECONDS = 3600.0


def write_atomically(path: Path, content: bytes, *, mode: int = 0o644) -> None:
    """The old content or the new, never a torn one: write beside, sync, rename, sync the directory."""
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            beside.rename(path)
        except OSError:
            beside.unlink(missing_ok=True)
            raise
        sync_directory(path.parent)
    except OSError as error:
        raise cannot_write(path, error) from None


def resolve_inside(path: Path, folder: Path | None = None) -> Path:
    """Where a file really is. A link out of the folder, its own if none is named, is refused: a repository could have
    any file of the person's read or written over. What is in /dev, such as stdout, was meant."""
    folder = folder or path.parent
    real = Path(os.path.realpath(path))
    if not real.is_relative_to(os.path.realpath(folder)) and not path.is_relative_to("/dev"):
        raise UsageError(f"{path} leads out of {folder}, to {real}", hint="name that file itself, or remove the link")
    return real


def write_inside(path: Path, content: str | bytes, folder: Path | None = None) -> None:
    """A file that a person asked for, in a folder that anybody may have filled."""
    real = resolve_inside(path, folder)
    try:
        real.parent.mkdir(parents=True, exist_ok=True)
        real.write_bytes(content.encode() if isinstance(content, str) else content)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from None


def sync_directory(path: Path) -> None:
    """Makes the names in it last through a power cut."""
    if not hasattr(os, "O_DIRECTORY"):
        return  # a system whose folders nobody opens
    directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def sweep(directory: Path) -> None:
    """Removes what writers that were killed left beside their files, long after any of them could still be at work."""
    for leftover in leftovers(directory):
        try:
            if time.time() - leftover.stat().st_mtime > _STALE_SECONDS:
                leftover.unlink()
        except OSError:
            pass  # it is gone, or stays for the next


def leftovers(directory: Path) -> list[Path]:
    with os.scandir(directory) as entries:
        return [Path(entry) for entry in entries if entry.name.startswith(".") and entry.name.endswith(".tmp")]


def cannot_write(path: Path, error: OSError) -> StoreError:
    return StoreError(
        f"{path} cannot be written: {error.strerror}",
        hint="what was written before is safe; see `df -h` and the directory's permissions",
    )
