"""Bytes of a connection -> the events in them: HTTP/1.1 and server-sent events, and nothing else of either.

Written for thousands of small pieces a second: a piece that holds whole chunks is cut without being copied twice.
"""

from __future__ import annotations

_HEAD_LIMIT_BYTES = 65_536
_CHUNK_LIMIT_BYTES = 4 * 1024**2


class WireError(Exception):
    """The other side does not speak HTTP/1.1 as it should."""


class Response:
    """One response, fed piece by piece."""

    __slots__ = ("_chunked", "_left", "_rest", "finished", "is_stream", "keep_alive", "status")

    def __init__(self) -> None:
        self.status = 0
        self.finished = False
        self.keep_alive = True
        self.is_stream = False
        self._rest = b""
        self._chunked = False
        self._left: int | None = None

    def feed(self, data: bytes) -> bytes:
        """The body's bytes that this piece completes."""
        if self._rest:
            data = self._rest + data
            self._rest = b""
        while self.status < 200:  # 100 Continue comes before the answer
            end = data.find(b"\r\n\r\n")
            if end < 0:
                if len(data) > _HEAD_LIMIT_BYTES:
                    raise WireError("a head without an end")
                self._rest = data
                return b""
            self._read_head(data[:end])
            data = data[end + 4 :]
        if self._chunked:
            return self._cut_chunks(data)
        if self._left is None:
            return data
        taken = data[: self._left]
        self._left -= len(taken)
        self.finished = self._left == 0
        return taken

    def close(self) -> bool:
        """The connection ended; True if the body was whole."""
        if self.status >= 200 and not self._chunked and self._left is None:
            self.finished = True
        return self.finished

    def _read_head(self, head: bytes) -> None:
        first, *lines = head.split(b"\r\n")
        status_fields = first.split(b" ", 2)
        if len(status_fields) < 2 or not status_fields[0].startswith(b"HTTP/1.") or not status_fields[1].isdigit():
            raise WireError(f"not an HTTP/1.1 answer: {first[:60]!r}")
        if len(status_fields[1]) != 3:
            raise WireError(f"not a status: {status_fields[1][:20]!r}")
        self.status = int(status_fields[1])
        self.keep_alive = status_fields[0] != b"HTTP/1.0"
        for line in lines:
            name, _, header_value = line.partition(b":")
            match name.strip().lower():
                case b"transfer-encoding":
                    self._chunked = b"chunked" in header_value.lower()
                case b"content-length":
                    length = self._number(header_value.strip(), 10)
                    if self._left not in (None, length):
                        raise WireError(f"two lengths, {self._left} and {length}")
                    self._left = length
                case b"connection":
                    self.keep_alive = b"close" not in header_value.lower()
                case b"content-type":
                    self.is_stream = b"text/event-stream" in header_value.lower()
        if self._chunked:
            self._left = None
        self.finished = self._left == 0 or self.status in (204, 304)

    def _cut_chunks(self, data: bytes) -> bytes:
        pieces = []
        at = 0
        while at < len(data) and not self.finished:
            end = data.find(b"\r\n", at)
            if end < 0:
                if len(data) - at > 1024:
                    raise WireError("a chunk without a length")
                break
            size = self._number(data[at:end].partition(b";")[0].strip(), 16)
            stop = end + 2 + size
            if len(data) < stop + 2:
                break
            if data[stop : stop + 2] != b"\r\n":
                raise WireError("a chunk is longer than it says")
            if size == 0:
                self.finished = True
            else:
                pieces.append(data[end + 2 : stop])
            at = stop + 2
        self._rest = data[at:]
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _number(self, text: bytes, base: int) -> int:
        try:
            number = int(text, base)
        except ValueError:
            raise WireError(f"not a length: {text[:20]!r}") from None
        if not 0 <= number <= _CHUNK_LIMIT_BYTES:
            raise WireError(f"a length of {number} bytes")
        return number


class Events:
    """The `data` of each server-sent event, fed piece by piece."""

    __slots__ = ("_rest",)

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, piece: bytes) -> list[bytes]:
        buffer = self._rest + piece if self._rest else piece
        if b"\r" in buffer:  # a line feed that is still to come finds its \r in the rest
            buffer = buffer.replace(b"\r\n", b"\n")
        blocks = buffer.split(b"\n\n")
        self._rest = blocks.pop()
        if len(self._rest) > _CHUNK_LIMIT_BYTES:
            raise WireError("an event without an end")
        return [event_data for block in blocks if (event_data := _data(block))]


def _data(block: bytes) -> bytes:
    if block.startswith(b"data: ") and b"\n" not in block:
        return block[6:]
    lines = [line[5:].removeprefix(b" ") for line in block.split(b"\n") if line.startswith(b"data:")]
    return b"\n".join(lines)
