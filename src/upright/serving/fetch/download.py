"""Downloads the files of a repository over several connections, and verifies them.

Workers take chunks in order; one thread hashes behind them while the bytes are still in memory. All that is known is on
the disk at every moment, so that an end of any kind needs no clean-up.
"""

from __future__ import annotations

import errno
import hashlib
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from upright.base import units
from upright.base.errors import FetchError
from upright.models.reading.hub import ListedFile, RemoteBlob, Repository, Traffic
from upright.serving.fetch.layout import FetchLayout
from upright.serving.fetch.partial import PartialFile
from upright.serving.fetch.progress import FetchProgress, Pace

if TYPE_CHECKING:
    from hashlib import _Hash

WRITE_BYTES = 256 << 10
_HASH_BYTES = 4 << 20
_TRIES = 2
_TICK_SECONDS = 0.25
_LAST_WORDS_SECONDS = 3.0


@dataclass(eq=False)
class DownloadJob:
    """One file to fetch."""

    file: ListedFile
    partial: PartialFile
    blob: RemoteBlob
    hashed_bytes: int = 0
    tries: int = 1
    hash: _Hash | None = None
    held: ExitStack = field(default_factory=ExitStack)

    @property
    def done_bytes(self) -> int:
        return self.partial.fetched_bytes()


class Download:
    """Fetches all of the files, or raises what stopped it; what came stays and is not asked for again."""

    def __init__(
        self,
        repository: Repository,
        layout: FetchLayout,
        files: Sequence[ListedFile],
        traffic: Traffic,
        connections: int,
    ) -> None:
        self.refetched_files = 0
        self._layout, self._traffic = layout, traffic
        self._connections = max(1, connections)
        self._jobs = [self._job(repository, file) for file in files]
        self._waiting, self._active = deque(self._jobs), list[DownloadJob]()
        self._chunks: deque[tuple[DownloadJob, int]] = deque()
        self._finished = 0
        self._changed = threading.Condition()
        self._stopped = False
        self._failure: Exception | None = None
        self._pace = Pace()

    def run(self, on_progress: Callable[[FetchProgress], None], whole_bytes: int, whole_files: int) -> None:
        """`whole_bytes` and `whole_files` were here before, and count as done."""
        threads = [*(self._thread(self._work) for _ in range(self._connections)), self._thread(self._verify)]
        for thread in threads:
            thread.start()
        try:
            while not self._is_over():
                on_progress(self._progress(whole_bytes, whole_files))
                with self._changed:
                    self._changed.wait_for(self._is_over, _TICK_SECONDS)
        finally:
            self._stop()
            for thread in threads:
                thread.join(_LAST_WORDS_SECONDS)
            if not any(thread.is_alive() for thread in threads):
                for job in self._jobs:
                    job.partial.close()
                    job.held.close()
        if self._failure is not None:
            raise self._failure
        on_progress(self._progress(whole_bytes, whole_files))

    def _job(self, repository: Repository, file: ListedFile) -> DownloadJob:
        return DownloadJob(file, self._layout.partial(file), repository.remote(file.name))

    def _thread(self, work: Callable[[], None]) -> threading.Thread:
        return threading.Thread(target=self._guarded, args=(work,), daemon=True)

    def _guarded(self, work: Callable[[], None]) -> None:
        """The first failure is everybody's; those that stopping itself causes are nobody's."""
        try:
            work()
        except Exception as error:
            with self._changed:
                if not self._stopped:
                    self._failure = self._told(error)
            self._stop()

    def _work(self) -> None:
        while (task := self._take()) is not None:
            job, chunk = task
            start, end = job.partial.span(chunk)
            held = bytearray()
            try:
                for piece in job.blob.pieces(start, end - start):
                    held += piece
                    if len(held) >= WRITE_BYTES:
                        job.partial.write(chunk, bytes(held))
                        held.clear()
                    if self._stopped:
                        return
            finally:
                if held:
                    job.partial.write(chunk, bytes(held))
            with self._changed:
                self._changed.notify_all()

    def _take(self) -> tuple[DownloadJob, int] | None:
        with self._changed:
            while not self._is_over():
                if self._chunks:
                    return self._chunks.popleft()
                if self._waiting:
                    self._begin(self._waiting.popleft())
                else:
                    self._changed.wait()  # a file whose bytes were wrong may come back
        return None

    def _begin(self, job: DownloadJob) -> None:
        job.held.enter_context(self._layout.alone(self._layout.key(job.file), job.file.name))
        job.partial.open()
        job.hash = _new_hash(job.file)
        self._active.append(job)
        self._chunks.extend((job, chunk) for chunk in job.partial.unfinished())
        self._changed.notify_all()

    def _verify(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._is_over() or self._next_to_hash() is not None, _TICK_SECONDS)
                job = self._next_to_hash()
            if self._is_over():
                return
            if job is not None:
                self._hash_on(job)

    def _next_to_hash(self) -> DownloadJob | None:
        return next((job for job in self._active if _can_hash(job)), None)

    def _hash_on(self, job: DownloadJob) -> None:
        assert job.hash is not None
        until = job.partial.whole_until()
        while job.hashed_bytes < until and not self._stopped:
            piece = job.partial.read(job.hashed_bytes, min(_HASH_BYTES, until - job.hashed_bytes))
            job.hash.update(piece)
            job.hashed_bytes += len(piece)
        if job.hashed_bytes == job.file.size_bytes and not self._stopped:
            self._judge(job, job.hash.hexdigest())

    def _judge(self, job: DownloadJob, found: str) -> None:
        wanted = job.file.sha256 or job.file.git_id
        with self._changed:
            if wanted in (None, found):
                job.partial.finish()
                self._layout.place(job.file, job.partial.path)
                job.held.close()
                self._active.remove(job)
                self._finished += 1
            elif job.tries >= _TRIES:
                job.partial.start_over()
                raise FetchError(
                    f"{job.file.name} came with wrong bytes {_TRIES} times: its hash is {found[:12]}, "
                    f"the hub says {str(wanted)[:12]}",
                    hint="a proxy or a disk changes bytes; nothing of this file was kept",
                )
            else:
                self.refetched_files += 1
                job.tries, job.hashed_bytes, job.hash = job.tries + 1, 0, _new_hash(job.file)
                job.partial.start_over()
                self._chunks.extendleft((job, chunk) for chunk in reversed(job.partial.unfinished()))
            self._changed.notify_all()

    def _progress(self, whole_bytes: int, whole_files: int) -> FetchProgress:
        done = whole_bytes + sum(job.done_bytes for job in self._jobs)
        total = whole_bytes + sum(job.file.size_bytes for job in self._jobs)
        rate = self._pace.rate(self._traffic.bytes_received)
        return FetchProgress(
            done_bytes=done,
            total_bytes=total,
            verified_bytes=whole_bytes + sum(job.hashed_bytes for job in self._jobs),
            rate_bytes_per_second=rate,
            left_seconds=(total - done) / rate if rate else None,
            files_done=whole_files + self._finished,
            files=whole_files + len(self._jobs),
            retries=self._traffic.retries,
        )

    def _is_over(self) -> bool:
        return self._stopped or self._finished == len(self._jobs)

    def _stop(self) -> None:
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    def _told(self, error: Exception) -> Exception:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            missing = sum(job.file.size_bytes - job.done_bytes for job in self._jobs)
            return FetchError(
                f"{self._layout.parts} cannot be written: {error.strerror}; {units.format_size(missing)} are missing",
                hint="make room and fetch again: what came is kept",
            )
        if isinstance(error, OSError):
            return FetchError(f"{self._layout.parts} cannot be written: {error.strerror}")
        return error


def _can_hash(job: DownloadJob) -> bool:
    return job.partial.whole_until() > job.hashed_bytes or job.file.size_bytes == 0


def file_hash(file: ListedFile, pieces: Iterable[bytes]) -> str:
    """The hash of a file's bytes, of the kind that the hub told."""
    hasher = _new_hash(file)
    for piece in pieces:
        hasher.update(piece)
    return hasher.hexdigest()


def _new_hash(file: ListedFile) -> _Hash:
    if file.sha256 is None and file.git_id is not None:
        return hashlib.sha1(f"blob {file.size_bytes}\0".encode(), usedforsecurity=False)  # how git names a file
    return hashlib.sha256()
