"""An HTTP client with limits on the time and the size of every response.

The timeout of a socket holds for one read, so a server that sends a byte a second never meets it: here a request has an
end. Nothing is decompressed, since a few bytes may become any number: peers are told so, and refused if they do anyway.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from upright.base import units
from upright.base.bounds.errors import ExceededError, OverdueError

if TYPE_CHECKING:
    import httpx2

MOST_BYTES = 16_000_000
"""Of a page that is no answer: metrics, a list of models, an error."""
LONGEST_LINE_BYTES = 4_000_000


@dataclass
class Deadline:
    """When a request is over."""

    last: float
    """It is over then, whatever came."""
    end: float

    def go_on(self, seconds: float) -> None:
        """Something came that was worth the wait: so long for the next, and never beyond the last moment."""
        self.end = min(self.last, time.monotonic() + seconds)


_clock: ContextVar[Deadline | None] = ContextVar("clock of the request", default=None)


def client(**options: Any) -> httpx2.Client:
    """An HTTP client whose reads end when `within` does. It unpacks nothing and follows nobody by itself."""
    import httpx2

    headers = {"Accept-Encoding": "identity", **options.pop("headers", {})}
    made = httpx2.Client(headers=headers, follow_redirects=False, **options)
    for transport in (made._transport, *made._mounts.values()):
        if isinstance(transport, httpx2.HTTPTransport):
            from upright.base.bounds.sockets import TimedBackend

            # Guard: httpx2 2.16 takes no backend for its pool, though the pool does
            transport._pool._network_backend = TimedBackend(transport._pool._network_backend, left_seconds)
    return made


@contextmanager
def time_limit(seconds: float, first_seconds: float | None = None) -> Iterator[Deadline]:
    """All that a client of ours reads and writes inside, in this thread, has so long together.

    With `first_seconds` it is over then, unless something comes and the clock is told to go on.
    """
    now, outer = time.monotonic(), _clock.get()
    last = now + seconds if outer is None else min(now + seconds, outer.end)
    clock = Deadline(last, last if first_seconds is None else min(last, now + first_seconds))
    token = _clock.set(clock)
    try:
        yield clock
    finally:
        _clock.reset(token)


def left_seconds() -> float | None:
    """Until the end of the request; None if it has none."""
    clock = _clock.get()
    return None if clock is None else clock.end - time.monotonic()


def describe_failure(error: Exception) -> str:
    """What a peer did, after its name, when an exchange with it failed."""
    import httpx2

    if isinstance(error, ExceededError):
        return str(error)
    if isinstance(error, httpx2.TimeoutException):
        return "did not answer in time"
    if isinstance(error, httpx2.RemoteProtocolError):
        if "buffer too long" in str(error):
            return "sent a head that is too long"
        if "without sending complete" in str(error):
            return f"ended inside its answer: {error}"
        if "disconnected" in str(error) or "closed" in str(error):
            return "cannot be reached: it closes the connection without an answer"
        return f"does not speak HTTP as it should: {error}"
    if isinstance(error, httpx2.ReadError | httpx2.WriteError):
        return f"cannot be reached: it broke the connection ({error})"
    return f"cannot be reached: {error}"


def body(response: httpx2.Response, most_bytes: int = MOST_BYTES) -> bytes:
    """All of it, or ExceededError."""
    pieces, size = [], 0
    for piece in raw_pieces(response):
        size += len(piece)
        if size > most_bytes:
            raise ExceededError(f"sent more than {units.format_size(most_bytes)}")
        pieces.append(piece)
    return b"".join(pieces)


def first_bytes(response: httpx2.Response, bytes_wanted: int = 65_536) -> bytes:
    """The first bytes, as of an error page: whoever sends more is not listened to."""
    pieces = b""
    for piece in raw_pieces(response):
        pieces += piece
        if len(pieces) >= bytes_wanted:
            break
    return pieces[:bytes_wanted]


def lines(response: httpx2.Response, most_bytes: int, longest_bytes: int = LONGEST_LINE_BYTES) -> Iterator[bytes]:
    """Line by line, without what ends them."""
    held: list[bytes] = []
    size = waiting = 0
    for piece in raw_pieces(response):
        size += len(piece)
        waiting += len(piece)
        held.append(piece)
        if size > most_bytes:
            raise ExceededError(f"sent more than {units.format_size(most_bytes)}")
        if b"\n" in piece:
            *whole, rest = b"".join(held).split(b"\n")
            held, waiting = [rest], len(rest)
            yield from (line.removesuffix(b"\r") for line in whole)
        if waiting > longest_bytes:
            raise ExceededError(f"sent a line of more than {units.format_size(longest_bytes)}")
    if rest := b"".join(held):
        yield rest


def raw_pieces(response: httpx2.Response) -> Iterator[bytes]:
    """As they come over the wire. ExceededError if they are compressed, OverdueError when time is up."""
    coding = response.headers.get("content-encoding", "identity").strip().lower()
    if coding not in ("", "identity"):
        raise ExceededError(f"answered compressed ({coding[:40]}), which nobody asked for")
    for piece in [response.content] if response.is_stream_consumed else response.iter_raw():
        if (left := left_seconds()) is not None and left <= 0:
            raise OverdueError("did not answer in time")
        yield piece


_UNASKED_TOKENS = 4_096
"""For an answer whose length nobody limited."""
_SLOWEST_TOKEN_SECONDS = 5.0
"""Of a stream that is slow and still worth waiting for."""
_MOST_BYTES_A_TOKEN = 4_096
"""A chunk of a stream with twenty candidates for its token."""
_ENVELOPE_BYTES = 1_000_000


def answer_limit_seconds(patience_seconds: float, tokens: int | None) -> float:
    """Of a whole answer, whose every piece is waited for with that patience."""
    return patience_seconds + (_UNASKED_TOKENS if tokens is None else tokens) * _SLOWEST_TOKEN_SECONDS


def answer_limit_bytes(tokens: int | None) -> int:
    return _ENVELOPE_BYTES + (_UNASKED_TOKENS if tokens is None else tokens) * _MOST_BYTES_A_TOKEN
