"""A loopback proxy that records a client's requests as an AgentTrace.

What passes is handed on as it comes. A stream that would not say how many tokens it had is asked to, and the client
does not see that answer. Only loopback is listened on, and only by its own name; whoever asks has the token that stands
in the address, so that neither a page of another origin nor another user of the machine can ask.
"""

from __future__ import annotations

import json
import secrets
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import FrameType
from typing import Any

import httpx2

from upright.base import bounds, units
from upright.base.errors import UsageError
from upright.facts.records.trace import AgentTrace
from upright.proof.benchmark.prefix_watch import Departure, PrefixWatch
from upright.proof.benchmark.trace_recorder import RecordedTurn, TraceRecorder

LOOPBACK = "127.0.0.1"
_OWN_NAMES = frozenset({"127.0.0.1", "localhost", "[::1]"})
_RECORDED = ("/chat/completions", "/completions", "/messages", "/responses")
_COUNTS_LATE = ("/chat/completions", "/completions")
"""Their streams count tokens only if they are asked to."""
_HOPS = frozenset(
    {
        "connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "te", "trailer", "transfer-encoding",
        "upgrade", "host", "content-length", "accept-encoding", "expect",
    }
)  # fmt: skip
"""Headers of one connection, which are not handed on."""
_MOST_REQUEST_BYTES = 64_000_000
_MOST_ANSWER_BYTES = 256_000_000
_LONGEST_EVENT_BYTES = 4_000_000
_PATIENCE_SECONDS = 3600.0
_MOST_STREAMS = 256


class TokenReading:
    """What the events of an answer say of its tokens."""

    def __init__(self) -> None:
        self._prompt = self._output = 0
        self.cached = 0
        """Of the prompt's tokens, those that the engine did not read again."""

    def hear(self, event: Any) -> None:
        if not isinstance(event, dict):
            return
        for holder in (event, event.get("message"), event.get("response")):
            usage = holder.get("usage") if isinstance(holder, dict) else None
            if isinstance(usage, dict):
                self._take(usage)
        timings = event.get("timings")
        if isinstance(timings, dict) and not self._prompt:  # llama.cpp says so without being asked
            self.cached = bounds.checked_count(timings.get("cache_n")) or 0
            self._prompt = (bounds.checked_count(timings.get("prompt_n")) or 0) + self.cached
            self._output = bounds.checked_count(timings.get("predicted_n")) or 0

    def _take(self, usage: dict[str, Any]) -> None:
        names = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
        asked = bounds.checked_count(usage.get("prompt_tokens")) or sum(
            bounds.checked_count(usage.get(name)) or 0 for name in names
        )
        answered = (
            bounds.checked_count(usage.get("completion_tokens"))
            or bounds.checked_count(usage.get("output_tokens"))
            or 0
        )
        self._prompt, self._output = max(self._prompt, asked), max(self._output, answered)
        details = usage.get("prompt_tokens_details", usage.get("input_tokens_details"))
        holder, name = (details, "cached_tokens") if isinstance(details, dict) else (usage, "cache_read_input_tokens")
        self.cached = max(self.cached, bounds.checked_count(holder.get(name)) or 0)

    @property
    def tokens(self) -> tuple[int, int] | None:
        return (self._prompt, self._output) if self._prompt and self._output else None


@contextmanager
def recording_proxy(
    base_url: str, recorder: TraceRecorder, port: int = 0, watch: PrefixWatch | None = None
) -> Iterator[str]:
    """Yields the address that a client is told; what was in flight at the end is cut."""
    target = base_url.rstrip("/").removesuffix("/v1")
    if not target.startswith(("http://", "https://")):
        raise UsageError(f"{base_url!r} is not an address", hint="write http://HOST:PORT")
    # Engines end idle connections when they like: one that was kept would be a 502 of ours, and nothing is sent twice.
    fresh = httpx2.Limits(max_keepalive_connections=0)
    with bounds.client(timeout=_PATIENCE_SECONDS, trust_env=False, limits=fresh) as client:
        try:
            server = _Proxy(port, target, recorder, watch, client)
        except OSError as error:
            raise UsageError(f"cannot listen on port {port}: {error.strerror}", hint="another --port") from None
        with server:
            thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True)
            thread.start()
            try:
                yield f"http://{LOOPBACK}:{server.server_address[1]}/{server.token}"
            finally:
                server.shutdown()
                thread.join()


class _Proxy(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(
        self, port: int, target: str, recorder: TraceRecorder, watch: PrefixWatch | None, client: httpx2.Client
    ) -> None:
        super().__init__((LOOPBACK, port), _Passing)
        self.target, self.recorder, self.watch, self.client = target, recorder, watch, client
        self.token = secrets.token_urlsafe(16)
        self.streams = threading.BoundedSemaphore(_MOST_STREAMS)

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that hangs up is no event."""


class _Passing(BaseHTTPRequestHandler):
    """One connection of a client."""

    protocol_version = "HTTP/1.1"
    timeout = 600

    @property
    def _proxy(self) -> _Proxy:
        assert isinstance(self.server, _Proxy)
        return self.server

    def do_GET(self) -> None:
        self._pass_on(b"")

    def do_POST(self) -> None:
        stated = self.headers.get("content-length", "")
        if not (stated.isascii() and stated.isdigit()) or int(stated) > _MOST_REQUEST_BYTES:
            return self._refuse(413, f"a request has a length of up to {units.format_size(_MOST_REQUEST_BYTES)}")
        return self._pass_on(self.rfile.read(int(stated)))

    def _pass_on(self, content: bytes) -> None:
        name = self.headers.get("host", "").lower()
        name = name.rpartition(":")[0] if not name.endswith("]") and ":" in name else name
        if name not in _OWN_NAMES:
            return self._refuse(403, "only loopback is served")
        if self._is_of_a_page():
            return self._refuse(403, "pages of another origin are not served")
        if not self.path.startswith("/"):
            return self._refuse(400, "the request names no path")
        token, slash, path = self.path[1:].partition("/")
        if not (slash and secrets.compare_digest(token.encode(), self._proxy.token.encode())):
            return self._refuse(403, "the address is not the one that was printed: its token is missing")
        self.path = f"/{path}"
        if not self._proxy.streams.acquire(blocking=False):
            return self._refuse(503, f"{_MOST_STREAMS} requests are in flight already")
        try:
            return self._exchange(content)
        finally:
            self._proxy.streams.release()

    def _is_of_a_page(self) -> bool:
        """Whether a browser asks for a page that is not from here, which any page in the world may have it do."""
        own, site = f"http://{self.headers.get('host', '')}".lower(), self.headers.get("sec-fetch-site", "none")
        return self.headers.get("origin", own).lower() != own or site not in ("none", "same-origin")

    def _exchange(self, content: bytes) -> None:
        proxy = self._proxy
        content, turn, departure, hidden = self._begun(content)
        headers = [(name, text) for name, text in self.headers.items() if name.lower() not in _HOPS]
        reading = TokenReading()
        tokens = None
        try:
            with (
                bounds.time_limit(_PATIENCE_SECONDS),
                proxy.client.stream(
                    self.command, f"{proxy.target}{self.path}", content=content, headers=headers
                ) as response,
            ):
                whole = self._answer(response, reading, hidden=hidden)
                tokens = reading.tokens if whole and response.status_code == 200 else None
        except (httpx2.HTTPError, bounds.ExceededError, bounds.OverdueError) as error:
            self.close_connection = True
            if not self._answered:
                self._refuse(502, f"{proxy.target} {bounds.describe_failure(error)}")
        finally:
            if turn is not None:
                proxy.recorder.ended(turn, time.monotonic(), tokens)
                if proxy.watch is not None and tokens is not None:
                    proxy.watch.ended(departure, tokens[0], reading.cached)

    def _begun(self, content: bytes) -> tuple[bytes, RecordedTurn | None, Departure | None, bool]:
        """What is sent, the turn that it is, where it departs from others, and whether its count of tokens is ours."""
        self._answered = False
        path = self.path.partition("?")[0]
        if self.command != "POST" or not path.endswith(_RECORDED):
            return content, None, None, False
        try:
            body = bounds.parse_peer_json(content)
        except (ValueError, bounds.ExceededError):
            return content, None, None, False
        if not isinstance(body, dict):
            return content, None, None, False
        turn = self._proxy.recorder.began(body, time.monotonic())
        departure = self._proxy.watch.began(body) if self._proxy.watch is not None else None
        late = body.get("stream") is True and path.endswith(_COUNTS_LATE)
        hidden = late and body.get("stream_options") is None and b'"stream_options"' not in content
        if hidden:  # the rest stays as it is, byte by byte
            content = b'{"stream_options": {"include_usage": true}, ' + content.lstrip()[1:]
        return content, turn, departure, hidden

    def _answer(self, response: httpx2.Response, reading: TokenReading, *, hidden: bool) -> bool:
        """Hands on an answer; whether all of it came."""
        kind = response.headers.get("content-type", "")
        if not kind.startswith("text/event-stream"):
            page = bounds.body(response, _MOST_ANSWER_BYTES)
            with suppress(ValueError, bounds.ExceededError):
                reading.hear(bounds.parse_peer_json(page))
            self._head(response, length=len(page))
            self.wfile.write(page)
            return True
        self._head(response, length=None)
        for event in _events(bounds.raw_pieces(response)):
            told = _told(event)
            reading.hear(told)
            if not (hidden and isinstance(told, dict) and told.get("usage") and not told.get("choices")):
                self.wfile.write(b"%x\r\n%s\r\n" % (len(event), event))
                self.wfile.flush()
        self.wfile.write(b"0\r\n\r\n")
        return True

    def _head(self, response: httpx2.Response, length: int | None) -> None:
        self._answered = True
        self.send_response_only(response.status_code)
        for name, text in response.headers.multi_items():
            if name.lower() not in _HOPS and not name.lower().startswith("access-control-"):
                self.send_header(name, text)
        self.send_header(*(("Transfer-Encoding", "chunked") if length is None else ("Content-Length", str(length))))
        self.end_headers()

    def _refuse(self, status: int, why: str) -> None:
        self.close_connection = True
        page = json.dumps({"error": {"message": f"upright tools record: {why}", "type": "proxy"}}).encode()
        self.send_response_only(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(page)))
        self.end_headers()
        self.wfile.write(page)

    def log_message(self, *words: object) -> None:
        """Nothing of what passes is written down."""


def _events(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Whole events with the empty line that ends them; what is longer than any event is handed on as it comes."""
    held = bytearray()
    for piece in pieces:
        since = max(0, len(held) - 3)  # an end may have begun before; what was searched is not searched again
        held += piece
        while (end := _end_of_event(held, since)) > 0:
            yield bytes(held[:end])
            del held[:end]
            since = 0
        if len(held) > _LONGEST_EVENT_BYTES:
            yield bytes(held)
            held.clear()
    if held:
        yield bytes(held)


def _end_of_event(held: bytearray, since: int) -> int:
    ends = [place + len(mark) for mark in (b"\n\n", b"\r\n\r\n") if (place := held.find(mark, since)) >= 0]
    return min(ends, default=0)


def _told(event: bytes) -> Any:
    """The JSON of an event; None if it has none."""
    lines = [line[5:].strip() for line in event.splitlines() if line.startswith(b"data:")]
    if len(lines) != 1 or not lines[0].startswith(b"{"):
        return None
    with suppress(ValueError, bounds.ExceededError):
        return bounds.parse_peer_json(lines[0])
    return None


Tell = Callable[[str], None]


def record_trace(base_url: str, port: int, seconds: float | None, tell: Tell) -> AgentTrace | None:
    """Until the time is over, or a person ends it; None if nothing was answered."""
    recorder, watch = TraceRecorder(), PrefixWatch(tell)
    with _ending() as over, recording_proxy(base_url, recorder, port, watch) as address:
        tell(f"recording {base_url}: point your client at {address}/v1 (OpenAI) or {address} (Anthropic)")
        tell("its key stays its own; Ctrl-C ends the recording")
        over.wait(seconds)
    if recorder.failed:
        tell(f"{recorder.failed} requests failed, were left or did not say their tokens: they are not in the trace")
    if recorder.passed_over:
        tell(f"{recorder.passed_over} requests had no prompt, or came when the trace was full: they are not in it")
    if summary := watch.summary():
        tell(summary)
    return recorder.trace(f"recorded {datetime.now(UTC):%Y-%m-%d}")


@contextmanager
def _ending() -> Iterator[threading.Event]:
    """Set when a person or the system asks to end, so that what was recorded is kept."""
    over = threading.Event()

    def end(number: int, frame: FrameType | None) -> None:
        over.set()

    before = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        yield over
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
