"""A remote file that is read in ranges."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable
from types import TracebackType
from typing import TYPE_CHECKING

from upright.base import bounds
from upright.base.errors import EngineError

if TYPE_CHECKING:
    import httpx2

_GAP_BYTES = 256 * 1024
_BLOCK_BYTES = 64 * 1024
_REDIRECTS = 5
_PATIENCE_SECONDS = 60.0
_SLOWEST_BYTES_PER_SECOND = 10_000
_CONTENT_RANGE = re.compile(r"bytes (\d{1,15})-\d{1,15}/(\d{1,15})")
TAIL_BYTES = 1024 * 1024
"""Enough for the directory of a wheel with ten thousand files; the rest is fetched if it is longer."""


class RangedFile(io.RawIOBase):
    """Seekable; blocks are kept, so that `zipfile` can read the directory and then single members."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._client = bounds.client(timeout=_PATIENCE_SECONDS)
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
        first, content, _ = self._get(f"bytes={start}-{stop - 1}", stop - start)
        if first != start or len(content) != stop - start:
            raise EngineError(
                "the index sends other bytes than were asked for", hint="download the wheel: --source WHEEL"
            )
        self._kept.append((start, content))

    def _fetch_tail(self) -> int:
        first, content, size = self._get(f"bytes=-{TAIL_BYTES}", TAIL_BYTES)
        self._kept.append((first, content))
        return size

    def _get(self, span: str, most_bytes: int) -> tuple[int, bytes, int]:
        """Where the bytes begin, the bytes, and how many the file has."""
        import httpx2

        try:
            with bounds.time_limit(_PATIENCE_SECONDS + most_bytes / _SLOWEST_BYTES_PER_SECOND):
                response = self._followed(span)
                try:
                    content = bounds.body(response, most_bytes) if response.status_code == 206 else b""
                finally:
                    response.close()
        except (httpx2.HTTPError, httpx2.InvalidURL, bounds.ExceededError) as error:
            raise EngineError(f"the wheel cannot be fetched: {error}", hint="--source WHEEL") from None
        place = _CONTENT_RANGE.fullmatch(response.headers.get("content-range", ""))
        if response.status_code != 206 or place is None:
            raise EngineError(
                f"the index answers {response.status_code} to a ranged read", hint="download the wheel: --source WHEEL"
            )
        self.fetched_bytes += len(content)
        return int(place[1]), content, int(place[2])

    def _followed(self, span: str) -> httpx2.Response:
        request = self._client.build_request("GET", self._url, headers={"Range": span})
        for _ in range(_REDIRECTS):
            response = self._client.send(request, stream=True)
            if response.next_request is None:
                return response
            response.close()
            request = response.next_request
        raise bounds.ExceededError(f"more than {_REDIRECTS} redirects")
