"""A file while it is fetched: its bytes in place, and beside them how far each chunk has come.

A counter is written after its bytes, so that after `kill -9` it never says too much. It says a whole chunk only when
the disk has it, so that after a power cut whole chunks are still believed and begun ones are not.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path

from upright.base.bounds.files import file_bytes

CHUNK_BYTES = 32 << 20
"""The longest range of one request, and the most that a power cut costs each connection."""
_MAGIC = b"upright1"
_HEADER = struct.Struct("<8sQQ36s4x")
_COUNTER = struct.Struct("<Q")


class PartialFile:
    """Use `open` before writing; several threads may write, each its own chunk."""

    def __init__(self, path: Path, size_bytes: int) -> None:
        self.path = path
        self.size_bytes = size_bytes
        self.chunks = -(-size_bytes // CHUNK_BYTES)
        self._counters_path = path.with_suffix(".chunks")
        self._done = self._remembered()
        self._data = self._counters = -1

    def fetched_bytes(self) -> int:
        """What a fetch would not ask for again."""
        return sum(self._done)

    def open(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._done = self._remembered()
        self._data = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self._counters = os.open(self._counters_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        os.ftruncate(self._data, self.size_bytes)
        header = _HEADER.pack(_MAGIC, self.size_bytes, CHUNK_BYTES, _boot_id())
        os.pwrite(self._counters, header + b"".join(_COUNTER.pack(counter) for counter in self._done), 0)

    def span(self, chunk: int) -> tuple[int, int]:
        """Where the chunk's missing bytes begin, and where the chunk ends."""
        start = chunk * CHUNK_BYTES
        return start + self._done[chunk], min(start + CHUNK_BYTES, self.size_bytes)

    def unfinished(self) -> list[int]:
        return [chunk for chunk in range(self.chunks) if self.span(chunk)[0] < self.span(chunk)[1]]

    def write(self, chunk: int, data: bytes) -> None:
        """The next bytes of the chunk; counted in memory last: another thread may then judge and close the file."""
        position, end = self.span(chunk)
        left = memoryview(data)
        while left:
            written = os.pwrite(self._data, left, position)
            left, position = left[written:], position + written
        if position >= end:
            os.fdatasync(self._data)
        done = position - chunk * CHUNK_BYTES
        os.pwrite(self._counters, _COUNTER.pack(done), _HEADER.size + chunk * _COUNTER.size)
        self._done[chunk] = done

    def read(self, position: int, length: int) -> bytes:
        return os.pread(self._data, length, position)

    def whole_until(self) -> int:
        """Bytes from the beginning that are all there."""
        unfinished = self.unfinished()
        return self.span(unfinished[0])[0] if unfinished else self.size_bytes

    def start_over(self) -> None:
        """The bytes were wrong."""
        self._done = [0] * self.chunks
        os.pwrite(self._counters, bytes(self.chunks * _COUNTER.size), _HEADER.size)

    def finish(self) -> None:
        """The bytes are right and on the disk; the counters have served. `path` is left to be moved."""
        os.fsync(self._data)
        self.close()
        self._counters_path.unlink(missing_ok=True)

    def close(self) -> None:
        for descriptor in (self._data, self._counters):
            if descriptor >= 0:
                os.close(descriptor)
        self._data = self._counters = -1

    def _remembered(self) -> list[int]:
        fresh = [0] * self.chunks
        try:
            raw = file_bytes(self._counters_path, own=True)
            if self.path.stat().st_size != self.size_bytes:
                return fresh
        except OSError:
            return fresh
        if len(raw) != _HEADER.size + self.chunks * _COUNTER.size:
            return fresh
        magic, size_bytes, chunk_bytes, boot = _HEADER.unpack_from(raw)
        if (magic, size_bytes, chunk_bytes) != (_MAGIC, self.size_bytes, CHUNK_BYTES):
            return fresh
        counters = [counter for (counter,) in _COUNTER.iter_unpack(raw[_HEADER.size :])]
        lengths = [min(CHUNK_BYTES, self.size_bytes - chunk * CHUNK_BYTES) for chunk in range(self.chunks)]
        same_boot = boot == _boot_id()
        return [
            done if done == length or (same_boot and done < length) else 0
            for done, length in zip(counters, lengths, strict=True)
        ]


def _boot_id() -> bytes:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_bytes().strip()[:36].ljust(36)
    except OSError:
        return b"unknown".ljust(36)
