"""Entry -> a line of evidence that is on the disk when `append` returns, chained to the line before it.

A line is {"seq":N,"previous":DIGEST,"record":KIND,"schema":N,"content":{...},"digest":DIGEST}; its digest is the sha256
of the bytes before `,"digest"`. The head file beside it names the last acknowledged line, and is the writer's lock.
"""

from __future__ import annotations

import errno
import hashlib
import json
import logging
import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from upright.base.bounds.bounded_json import MOST_TEXT_BYTES, TOO_LONG, parse_json
from upright.base.bounds.files import file_bytes, file_lines, open_file, open_lock, take_lock
from upright.base.errors import RecordError, StoreError
from upright.facts.records.base import Entry
from upright.facts.store.files import cannot_write, sync_directory, write_atomically

NO_DIGEST = "0" * 64
"""What the first line names as the line before it."""
_SEAL = b',"digest":"'
_SEAL_BYTES = len(_SEAL) + 64 + len(b'"}')
_BLOCK_BYTES = 65_536
_HEAD_BYTES = 160
_log = logging.getLogger(__name__)


class JournalLine(NamedTuple):
    """One entry as it stands in the file."""

    seq: int
    previous: str
    kind: str
    schema: int
    content: dict[str, Any]
    digest: str


class Head(NamedTuple):
    """What was acknowledged last. Written after the line itself is on the disk, so it may lag, and never leads."""

    entries: int
    digest: str
    writer: int | None


class Torn(NamedTuple):
    """The part of a line that a killed writer left; it was never acknowledged."""

    torn_bytes: int
    kept_in: Path


class DamageError(RecordError):
    """A line that is not as it was written."""

    def __init__(self, path: Path, place: str, what: str, *, whole: bool = True) -> None:
        super().__init__(f"{path}: {place} {what}", hint=f"upright tools store check {path.parent}")
        self.what = what
        self.whole = whole


class Journal:
    """The one writer of a log. Opening it reads the last line only, however long the log is."""

    def __init__(self, path: Path, *, patience_seconds: float = 0) -> None:
        """StoreError if another writer still has it when the patience is over."""
        self.path = path
        self.repaired: Torn | None = None
        self._file = -1
        self._seq, self._digest, self._end = 0, NO_DIGEST, 0
        self._lock = lock(path, patience_seconds=patience_seconds)
        try:
            self._open()
        except BaseException as error:
            self.close()
            if isinstance(error, OSError):
                raise cannot_write(path, error) from None
            raise

    def append(self, entry: Entry) -> JournalLine:
        """On the disk when this returns. If it raises, the log is as it was."""
        seq, previous = self._seq + 1, self._digest
        content = entry.model_dump(mode="json")
        line, digest = seal_line(seq, previous, entry.kind, entry.schema_version, content)
        self._write(line)
        self._seq, self._digest = seq, digest
        self._write_head()
        return JournalLine(seq, previous, entry.kind, entry.schema_version, content, digest)

    def close(self) -> None:
        for descriptor in (self._file, self._lock):
            if descriptor >= 0:
                os.close(descriptor)
        self._file = self._lock = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _open(self) -> None:
        is_new = not self.path.exists()
        self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
        if not stat.S_ISREG(os.fstat(self._file).st_mode):
            raise OSError(errno.EINVAL, "it is no regular file")
        if is_new:
            sync_directory(self.path.parent)
        raw, self._end = _tail(self._file)
        last = None if raw is None else parse_line(raw, self.path, "the last line")
        if last is not None:
            self._seq, self._digest = last.seq, last.digest
        head = read_head(self.path)
        if head is not None and head.entries > self._seq:
            raise StoreError(
                f"{self.path} ends at entry {self._seq}, but {head.entries} were acknowledged: its end was removed",
                hint=f"upright tools store check {self.path.parent}",
            )
        if self._end < os.fstat(self._file).st_size:
            self._set_torn_aside()
        if head is None or head.entries < self._seq:
            os.fdatasync(
                self._file
            )  # a whole line whose writer died before its sync: on the disk before the head names it
        self._write_head()

    def _set_torn_aside(self) -> None:
        size = os.fstat(self._file).st_size
        torn = os.pread(self._file, size - self._end, self._end)
        number = 1
        while (kept_in := self.path.with_name(f"{self.path.stem}.torn-{number}")).exists():
            number += 1
        write_atomically(kept_in, torn)
        os.ftruncate(self._file, self._end)
        os.fsync(self._file)
        self.repaired = Torn(len(torn), kept_in)
        _log.warning(
            "%s ended in a torn line that was never acknowledged: its %d bytes are now in %s",
            self.path,
            len(torn),
            kept_in.name,
        )

    def _write(self, line: bytes) -> None:
        try:
            written = 0
            while written < len(line):
                written += os.write(self._file, line[written:])
            os.fdatasync(self._file)
        except BaseException as error:
            self._take_back()
            if isinstance(error, OSError):
                raise cannot_write(self.path, error) from None
            raise
        self._end += len(line)

    def _take_back(self) -> None:
        """The log as it was before a write that failed; if even that fails, nothing more is written through here."""
        try:
            os.ftruncate(self._file, self._end)
        except OSError:
            self.close()

    def _write_head(self) -> None:
        """Not synced: after a power cut an older head is as true as this one, and after `kill -9` this one is there."""
        head = json.dumps({"entries": self._seq, "digest": self._digest, "writer": os.getpid()})
        try:
            os.pwrite(self._lock, head.ljust(_HEAD_BYTES - 1).encode() + b"\n", 0)
        except OSError as error:  # the line itself is on the disk, and a head may lag
            _log.warning("%s cannot be written: %s", head_file(self.path), error.strerror)


def seal_line(seq: int, previous: str, kind: str, schema: int, content: dict[str, Any]) -> tuple[bytes, str]:
    """A line as it stands in the file, and its digest."""
    opening = {"seq": seq, "previous": previous, "record": kind, "schema": schema}
    body = json.dumps(
        {**opening, "content": content}, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    ).encode()[:-1]
    digest = hashlib.sha256(body).hexdigest()
    return body + _SEAL + digest.encode() + b'"}\n', digest


def lock(path: Path, *, patience_seconds: float = 0) -> int:
    """The log's lock, held until the descriptor is closed or the process ends, however it ends."""
    deadline = time.monotonic() + patience_seconds
    while True:
        try:
            descriptor = open_lock(head_file(path), 0o644, own=True)
        except OSError as error:
            raise cannot_write(path, error) from None
        if _locked(descriptor, path):
            return descriptor
        os.close(descriptor)
        if time.monotonic() >= deadline:
            head = read_head(path)
            who = f"process {head.writer}" if head and head.writer else "another process"
            raise StoreError(
                f"{path} is being written by {who}; a log has one writer at a time", hint="try again when it is done"
            )
        time.sleep(0.02)


def lines(path: Path) -> Iterator[JournalLine]:
    """Every acknowledged line, each held against its digest and the line before it. A torn tail is not a line yet."""
    previous = NO_DIGEST
    for number, raw in enumerate(whole_lines(path), start=1):
        line = parse_line(raw, path, f"line {number}")
        if (line.seq, line.previous) != (number, previous):
            raise DamageError(path, f"line {number}", "does not follow the line before it")
        previous = line.digest
        yield line


def last(path: Path) -> JournalLine | None:
    """The last acknowledged line; the time it takes does not depend on how many there are."""
    try:
        with open_file(path, own=True) as file:
            raw, _ = _tail(file.fileno())
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _cannot_read(path, error) from None
    return None if raw is None else parse_line(raw, path, "the last line")


def whole_lines(path: Path) -> Iterator[bytes]:
    """The file's lines without their ends; what follows the last line end is left out."""
    try:
        for raw in file_lines(path, own=True):
            if raw.endswith(b"\n"):
                yield raw[:-1]
    except FileNotFoundError:
        return
    except OSError as error:
        raise _cannot_read(path, error) from None


def _cannot_read(path: Path, error: OSError) -> RecordError:
    return RecordError(f"{path} cannot be read: {error.strerror}")


def parse_line(raw: bytes, path: Path, place: str) -> JournalLine:
    body, seal = raw[:-_SEAL_BYTES], raw[-_SEAL_BYTES:]
    if not (seal.startswith(_SEAL) and seal.endswith(b'"}')):
        raise DamageError(path, place, "is not a whole entry", whole=False)
    digest = seal[len(_SEAL) : -2].decode("ascii", "replace")
    if hashlib.sha256(body).hexdigest() != digest:
        raise DamageError(path, place, "was changed: it does not fit its digest")
    try:
        entry = parse_json(body + b"}")
        return JournalLine(entry["seq"], entry["previous"], entry["record"], entry["schema"], entry["content"], digest)
    except (ValueError, KeyError, TypeError) as error:
        raise DamageError(path, place, f"is not an entry: {error!r}") from None


def head_file(path: Path) -> Path:
    return path.with_suffix(".head")


def read_head(path: Path) -> Head | None:
    """None if there is none, or it cannot be read: the log itself is the truth, the head only a witness."""
    try:
        payload = parse_json(file_bytes(head_file(path), own=True))
        return Head(int(payload["entries"]), str(payload["digest"]), payload.get("writer"))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _locked(descriptor: int, path: Path) -> bool:
    """False if another has the lock, or if this is no longer the log's head: it was set aside while we opened it."""
    try:
        return take_lock(descriptor) and os.path.samestat(os.fstat(descriptor), head_file(path).stat())
    except FileNotFoundError:
        return False


def _tail(descriptor: int) -> tuple[bytes | None, int]:
    """The last whole line without its end (None if there is none), and where it ends: what follows is torn."""
    size = os.fstat(descriptor).st_size
    span = min(size, _BLOCK_BYTES)
    while True:
        block = os.pread(descriptor, span, size - span)
        end = block.rfind(b"\n")
        start = block.rfind(b"\n", 0, end) if end > 0 else -1
        if start >= 0 or span == size:
            return (block[start + 1 : end], size - span + end + 1) if end >= 0 else (None, 0)
        if span > MOST_TEXT_BYTES:
            raise OSError(errno.EFBIG, f"its last line {TOO_LONG.removeprefix('it ')}")
        span = min(size, span * 4)
