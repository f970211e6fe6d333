"""A repository of a Hugging Face hub -> names, sizes and blobs that are read by ranges.

Endpoint, token and cache are huggingface_hub's own (HF_ENDPOINT, HF_TOKEN, HF_HOME, HF_HUB_OFFLINE). Redirects are
followed here and not by the HTTP client: the token goes to the endpoint and to no other host.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from socket import gaierror
from threading import Lock
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from upright.base import bounds
from upright.base.errors import ReadError, UnreachedError, UsageError
from upright.base.units import format_size
from upright.base.untrusted_text import checked_name, on_one_line
from upright.models.reading.blobs import Blob, LocalBlob
from upright.models.reading.cache import cached_file

if TYPE_CHECKING:
    import httpx2

_REDIRECTS = 5
_LISTING_LIMIT_BYTES = 32_000_000
_LISTING_VALUES = 1_500_000
_WORTH_BYTES = 65_536
"""A try that brought as much is no failure."""
_SLOWEST_BYTES_PER_SECOND = 500
_LONGEST_WAIT_SECONDS = 60.0
_TRANSIENT = frozenset({408, 425, 429, 500, 502, 503, 504})


@dataclass
class Traffic:
    """What reading has cost so far."""

    requests: int = 0
    """HTTP exchanges, redirects and repeated ones included."""
    bytes_received: int = 0
    """Bodies, as they came over the wire."""
    retries: int = 0
    """Exchanges that had to be repeated."""
    lock: Lock = field(default_factory=Lock, repr=False, compare=False)

    def count(self, *, requests: int = 0, bytes_received: int = 0, retries: int = 0) -> None:
        with self.lock:
            self.requests += requests
            self.bytes_received += bytes_received
            self.retries += retries


@dataclass(frozen=True)
class Hub:
    """Where repositories are, and who asks."""

    endpoint: str
    token: str | None = field(repr=False)
    offline: bool = False
    patience: int = 6
    """Failures in a row, of one request, after which it is given up."""
    silence_seconds: float = 30.0
    """How long a connection may say nothing before it counts as dropped."""
    sleep: Callable[[float], None] = time.sleep

    @classmethod
    def of_this_machine(cls) -> Hub:
        from huggingface_hub import constants, get_token

        return cls(constants.ENDPOINT.rstrip("/"), get_token(), bool(constants.HF_HUB_OFFLINE))


@dataclass(frozen=True)
class ListedFile:
    """A file of a repository, as the hub lists it."""

    name: str
    size_bytes: int
    sha256: str | None
    """Of its content; the hub knows it for files that git does not hold (LFS, Xet)."""
    git_id: str | None
    """Git's name of its content, or of the pointer to it."""


class Repository:
    """One revision of a repository; what the local cache has is read from there."""

    def __init__(self, hub: Hub, repo: str, revision: str | None, traffic: Traffic) -> None:
        self.title = repo
        self.repo = repo
        self._wire = HubConnection(hub, traffic)
        try:
            self.revision, self.files = self._listing(revision or "main")
        except BaseException:
            self._wire.close()  # nobody else has it yet
            raise

    def names(self) -> list[str]:
        return list(self.files)

    def blob(self, name: str) -> Blob:
        cached = cached_file(self.repo, name, self.revision)
        if cached is not None and cached.stat().st_size == self.files[name].size_bytes:
            return LocalBlob(cached, name)
        return self.remote(name)

    def remote(self, name: str) -> RemoteBlob:
        """The hub's own, whatever the cache has."""
        return RemoteBlob(self._wire, self.repo, self.revision, name, self.files[name].size_bytes)

    def close(self) -> None:
        self._wire.close()

    def _listing(self, revision: str) -> tuple[str, dict[str, ListedFile]]:
        path = f"/api/models/{quote(self.repo)}/revision/{quote(revision, safe='')}?blobs=true"
        body = self._wire.whole(path, _LISTING_LIMIT_BYTES, self.repo, revision)
        try:
            listing = bounds.parse_peer_json(body.decode(), _LISTING_VALUES)
            entries = [entry for entry in listing["siblings"] if _is_file(entry)]
            commit = listing["sha"]
        except bounds.ExceededError as error:
            raise ReadError(f"the hub's answer about {self.repo} cannot be read: it {error}") from None
        except (ValueError, TypeError, KeyError):
            raise ReadError(f"the hub's answer about {self.repo} is not a listing of its files") from None
        if not isinstance(commit, str) or not commit.isalnum():
            raise ReadError(f"the hub's answer about {self.repo} has no commit")
        return commit, {entry["rfilename"]: _listed(entry) for entry in entries}


class RemoteBlob:
    """A file of a repository, read by ranges."""

    def __init__(self, wire: HubConnection, repo: str, revision: str, name: str, size_bytes: int) -> None:
        self.name = name
        self.size_bytes = size_bytes
        self._wire = wire
        self._title = f"{name} of {repo}"
        self._first_url = f"{wire.endpoint}/{quote(repo)}/resolve/{revision}/{quote(name)}"
        self._url = self._first_url
        self._etag: str | None = None

    def pieces(self, start: int, length: int) -> Iterator[bytes]:
        """The whole range, however often the connection drops on the way."""
        position, end, failures = start, min(start + length, self.size_bytes), 0
        while position < end:
            before = position
            try:
                for piece in self._range(position, end - position):
                    yield piece
                    position += len(piece)
            except _TryAgainError as error:
                failures = 1 if position - before >= _WORTH_BYTES else failures + 1
                self._wire.pause(error, failures, self._title)
                self._url = self._first_url  # a redirect may have expired

    def _range(self, start: int, length: int) -> Iterator[bytes]:
        headers = {"Range": f"bytes={start}-{start + length - 1}"}
        with self._wire.exchange(self._url, headers, self._title) as response:
            self._url = str(response.url)
            if response.status_code != 206 and start:
                raise ReadError(f"the server of {self._title} does not send ranges")
            if not response.headers.get("content-range", f"bytes {start}-").startswith(f"bytes {start}-"):
                raise ReadError(f"the server of {self._title} sends other bytes than were asked for")
            self._same_file(response.headers.get("etag"))
            left = length
            for piece in self._wire.body(response, length):
                left -= len(piece)
                yield piece
            if left:
                raise _TryAgainError("the body was cut short")

    def _same_file(self, etag: str | None) -> None:
        if etag is not None and self._etag not in (None, etag):
            raise ReadError(f"{self._title} changed while it was being read", hint="read it again")
        self._etag = etag or self._etag


class _TryAgainError(Exception):
    """A passing fault: the connection dropped, the server is busy, or a signed link has expired."""

    def __init__(self, why: str, wait_seconds: float | None = None, *, nameless: bool = False) -> None:
        super().__init__(why)
        self.why = why
        self.wait_seconds = wait_seconds
        self.nameless = nameless
        """The host's name has no address: there is no network here, or no such host."""


class HubConnection:
    """Exchanges with the hub and the hosts it sends us to."""

    def __init__(self, hub: Hub, traffic: Traffic) -> None:
        import httpx2

        self.endpoint = hub.endpoint
        self._hub = hub
        self._traffic = traffic
        self._origin = _origin(httpx2.URL(hub.endpoint))
        self._client = bounds.client(
            headers={"User-Agent": "upright"}, timeout=httpx2.Timeout(hub.silence_seconds, connect=10.0)
        )

    def close(self) -> None:
        self._client.close()

    def whole(self, path: str, limit_bytes: int, repo: str, revision: str) -> bytes:
        """A body that must not be long, as a whole."""
        title = repo if revision == "main" else f"{repo}@{revision}"
        failures = 0
        while True:
            try:
                with self.exchange(self.endpoint + path, {}, title) as response:
                    return self._short(response, limit_bytes, title)
            except _TryAgainError as error:
                failures += 1
                if error.nameless and failures > 1:  # at first contact; in the midst of a file a name may come back
                    raise UnreachedError(
                        f"{title}: {error.why}", hint="connect this machine, or name a mirror by HF_ENDPOINT"
                    ) from None
                self.pause(error, failures, title)

    def _short(self, response: httpx2.Response, limit_bytes: int, title: str) -> bytes:
        content = b"".join(self.body(response, limit_bytes + 1))
        if len(content) > limit_bytes:
            raise ReadError(f"the hub's answer about {title} is longer than {format_size(limit_bytes)}; refused")
        return content

    def exchange(self, url: str, headers: dict[str, str], title: str) -> _Exchange:
        return _Exchange(self, url, headers, title)

    def body(self, response: httpx2.Response, limit_bytes: int) -> Iterator[bytes]:
        """The body in pieces, never more than the limit; a connection that drops is a passing fault."""
        import httpx2

        left, pace = limit_bytes, _Pace(self._hub.silence_seconds)
        try:
            for piece in response.iter_raw():
                self._traffic.count(bytes_received=len(piece))
                pace.count(len(piece))
                yield piece[:left]
                left -= len(piece)
                if left <= 0:
                    return
        except httpx2.TransportError as error:
            raise _TryAgainError(f"the connection dropped ({bounds.describe_failure(error)})") from None

    def send(self, url: str, headers: dict[str, str], title: str) -> httpx2.Response:
        """One request, and those that redirects ask for."""
        import httpx2

        for _ in range(_REDIRECTS + 1):
            try:
                request = self._client.build_request("GET", url, headers=headers | self._authorisation(url))
                self._traffic.count(requests=1)
                with bounds.time_limit(self._hub.silence_seconds):  # for its head: a body may take as long as it moves
                    response = self._client.send(request, stream=True)
            except httpx2.TransportError as error:
                if _is_nameless(error):
                    raise _TryAgainError(f"{_host(url)} cannot be resolved", nameless=True) from None
                raise _TryAgainError(f"no connection to {_host(url)} ({bounds.describe_failure(error)})") from None
            except (httpx2.InvalidURL, httpx2.UnsupportedProtocol):
                raise ReadError(f"the hub sends {title} to an address that cannot be read") from None
            if response.is_redirect:
                location = response.headers.get("location", "")
                response.close()
                url = _joined(url, location, title)
                continue
            self._judge(response, title)
            return response
        raise ReadError(f"{title}: more than {_REDIRECTS} redirects")

    def pause(self, error: _TryAgainError, failures: int, title: str) -> None:
        if failures >= self._hub.patience:
            raise ReadError(f"{title}: {error.why}, {failures} times in a row", hint="try again later") from None
        self._traffic.count(retries=1)
        wait = error.wait_seconds
        if wait is None:
            wait = 0.1 * 2**failures * (0.5 + random.random())  # noqa: S311  (spreads clients, guards nothing)
        self._hub.sleep(min(wait, _LONGEST_WAIT_SECONDS))

    def _authorisation(self, url: str) -> dict[str, str]:
        import httpx2

        if self._hub.token is None or _origin(httpx2.URL(url)) != self._origin:
            return {}
        return {"Authorization": f"Bearer {self._hub.token}"}

    def _judge(self, response: httpx2.Response, title: str) -> None:
        status = response.status_code
        coding = response.headers.get("content-encoding", "identity").strip().lower()
        if status in (200, 206) and coding in ("", "identity"):
            return
        response.close()
        if status in (200, 206):
            raise ReadError(f"{_host(str(response.url))} sends {title} compressed ({on_one_line(coding)}); refused")
        if status in _TRANSIENT:
            raise _TryAgainError(f"the server answers {status}", _retry_after(response))
        if status in (401, 403) and _origin(response.url) != self._origin:
            raise _TryAgainError(f"{_host(str(response.url))} answers {status}")  # a signed link that has expired
        if status in (401, 403):
            hint = "accept its licence on the hub" if self._hub.token else "set HF_TOKEN, or run: hf auth login"
            why = response.headers.get("x-error-message", "it is private, gated, or does not exist")[:200]
            raise ReadError(f"the hub does not let us read {title} ({status}): {why}", hint=hint)
        if status == 404:
            raise ReadError(f"the hub has no {title}", hint="check the spelling: owner/name, @revision, :QUANT")
        raise ReadError(f"{_host(str(response.url))} answers {status} for {title}")


class _Pace:
    """Bytes that come so slowly that the connection counts as dropped."""

    def __init__(self, window_seconds: float) -> None:
        self._window, self._began, self._bytes = window_seconds, time.monotonic(), 0

    def count(self, more_bytes: int) -> None:
        self._bytes += more_bytes
        elapsed = time.monotonic() - self._began
        if elapsed < self._window:
            return
        if self._bytes < _SLOWEST_BYTES_PER_SECOND * elapsed:
            raise _TryAgainError(f"only {self._bytes:,} bytes came in {elapsed:.0f} s")
        self._began, self._bytes = time.monotonic(), 0


class _Exchange:
    """`with wire.exchange(...) as response`, closed whatever happens."""

    def __init__(self, wire: HubConnection, url: str, headers: dict[str, str], title: str) -> None:
        self._arguments = (url, headers, title)
        self._wire = wire

    def __enter__(self) -> httpx2.Response:
        self._response = self._wire.send(*self._arguments)
        return self._response

    def __exit__(self, *_: object) -> None:
        self._response.close()


def _is_nameless(error: BaseException | None) -> bool:
    while error is not None and not isinstance(error, gaierror):
        error = error.__cause__ or error.__context__
    return error is not None


def _is_file(entry: dict[str, Any]) -> bool:
    listed = entry["size"]
    return type(listed) is int and listed >= 0 and _inside(str(entry["rfilename"]))


def _listed(entry: dict[str, Any]) -> ListedFile:
    kept = entry.get("lfs")
    sha256 = kept.get("sha256") if isinstance(kept, dict) else None
    return ListedFile(str(entry["rfilename"]), entry["size"], _hex(sha256, 64), _hex(entry.get("blobId"), 40))


def _hex(value: object, digits: int) -> str | None:
    """Hashes become names of files, so that nothing else may pass for one."""
    whole = isinstance(value, str) and len(value) == digits and not value.strip("0123456789abcdef")
    return str(value) if whole else None


def _inside(name: str) -> bool:
    """Below the folder that it will lie in. ReadError of a name that no file should have."""
    try:
        checked_name(name)
    except UsageError as error:
        raise ReadError(f"the hub lists a file that cannot be kept: {error.message}") from None
    return not name.startswith("/") and ".." not in name.split("/") and "\\" not in name


def _origin(url: httpx2.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port


def _host(url: str) -> str:
    return url.split("/")[2] if "//" in url else url


def _joined(url: str, location: str, title: str) -> str:
    import httpx2

    try:
        joined = httpx2.URL(url).join(location)
    except httpx2.InvalidURL:
        raise ReadError(f"the hub sends {title} to an address that cannot be read") from None
    if joined.scheme not in ("http", "https") or not joined.host:
        raise ReadError(f"the hub sends {title} to {joined.scheme or 'no'} address; refused")
    return str(joined)


def _retry_after(response: httpx2.Response) -> float | None:
    delay_text = response.headers.get("retry-after", "")
    return float(delay_text) if delay_text.isdigit() else None
