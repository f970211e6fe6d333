"""URL -> a file that reads only the ranges it is asked for."""

from __future__ import annotations

import io
from collections.abc import Iterable
from types import TracebackType
from typing import TYPE_CHECKING

from upright.errors import EngineError

if TYPE_CHECKING:
    import httpx2

_GAP_BYTES = 256 * 1024
_BLOCK_BYTES = 64 * 1024
TAIL_BYTES = 1024 * 1024
"""Enough for the directory of a wheel with ten thousand files; the rest is fetched if it is longer."""


class RangedFile(io.RawIOBase):
    """Seekable; blocks are kept, so that `zipfile` can read the directory and then single members."""

    def __init__(self, url: str) -> None:
        import httpx2

        self._url = url
        self._client = httpx2.Client(follow_redirects=True, timeout=60)
        self._kept: list[tuple[int, bytes]] = []
        self._at = 0
        self.fetched_bytes = 0
        self._size = self._fetch_tail()

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = max(0, base + offset)
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        start, stop = self._at, min(self._at + len(buffer), self._size)
        if start >= stop:
            return 0
        piece = self._piece(start, stop)
        buffer[: len(piece)] = piece
        self._at += len(piece)
        return len(piece)

    def prefetch(self, ranges: Iterable[tuple[int, int]]) -> None:
        """One request for members that lie close together."""
        merged: list[list[int]] = []
        for start, stop in sorted(ranges):
            if merged and start - merged[-1][1] <= _GAP_BYTES:
                merged[-1][1] = max(stop, merged[-1][1])
            else:
                merged.append([start, stop])
        for start, stop in merged:
            self._keep(start, stop)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.close()
        super().__exit__(kind, error, trace)

    def _piece(self, start: int, stop: int) -> bytes:
        for first, content in self._kept:
            if first <= start < first + len(content):
                return content[start - first : stop - first]
        self._keep(start, min(max(stop, start + _BLOCK_BYTES), self._size))
        return self._piece(start, stop)

    def _keep(self, start: int, stop: int) -> None:
        response = self._get(f"bytes={start}-{stop - 1}")
        self._kept.append((start, response.content))

    def _fetch_tail(self) -> int:
        response = self._get(f"bytes=-{TAIL_BYTES}")
        span, _, size = response.headers["content-range"].removeprefix("bytes ").partition("/")
        self._kept.append((int(span.partition("-")[0]), response.content))
        return int(size)

    def _get(self, span: str) -> httpx2.Response:
        import httpx2

        try:
            response = self._client.get(self._url, headers={"Range": span})
        except httpx2.HTTPError as error:
            raise EngineError(f"the wheel cannot be fetched: {error}", hint="--source WHEEL") from None
        if response.status_code != 206 or "content-range" not in response.headers:
            raise EngineError(
                f"the index answers {response.status_code} to a ranged read", hint="download the wheel: --source WHEEL"
            )
        self.fetched_bytes += len(response.content)
        return response
