"""A Hugging Face hub on loopback: listings with hashes, resolve with redirects to a second host, ranges, ETags, tokens.

Two real servers: the hub, and the store that it redirects to. Both count what they send; faults come on cue.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path
from typing import ClassVar
from urllib.parse import unquote, urlsplit

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@dataclass
class Seen:
    """One request as a server saw it."""

    server: str
    path: str
    authorization: str | None
    range: str | None


@dataclass
class LoopbackHub:
    """What is served, how it misbehaves, and what was asked."""

    folder: Path
    redirect: bool = True
    token: str | None = None
    drop_every: int = 0
    """Every n-th request for a file loses its connection half-way through the body."""
    busy_first: int = 0
    """So many requests are answered 429 before any other."""
    retry_after: str = "0"
    ignore_ranges: bool = False
    empty_first: int = 0
    """So many requests for a file are answered 200 with an empty body."""
    link_uses: int | None = None
    """A signed link of the store expires after so many uses."""
    wrong_first: int = 0
    """So many requests for weights are answered with one byte changed."""
    gated: bool = False
    """The listing is open, the files are not."""
    bytes_per_second: int | None = None
    """How fast each connection is served."""
    stalls_first: int = 0
    """So many requests for weights send half and then nothing, until the client hangs up."""
    seen: list[Seen] = field(default_factory=list)
    bytes_sent: int = 0
    weight_bytes_sent: int = 0
    """Of files that the store serves."""
    hub_url: str = ""
    store_url: str = ""
    lock: threading.Lock = field(default_factory=threading.Lock)
    _files: int = 0
    signatures: Iterator[int] = field(default_factory=count)
    _uses: Counter[str] = field(default_factory=Counter)

    def requests_per_file(self) -> Counter[str]:
        paths = [entry.path for entry in self.seen if "/resolve/" in entry.path or "/store/" in entry.path]
        return Counter(Path(path).name for path in paths)

    def data_requests_per_file(self) -> Counter[str]:
        """Without the redirects."""
        server = "store" if self.redirect else "hub"
        return Counter(Path(entry.path).name for entry in self.seen if entry.server == server and entry.range)

    @contextmanager
    def running(self) -> Iterator[LoopbackHub]:
        handlers = [type(name, (_Handler,), {"hub": self, "server_name": name}) for name in ("hub", "store")]
        servers = [_Server(("127.0.0.1", 0), handler) for handler in handlers]
        self.hub_url, self.store_url = (f"http://127.0.0.1:{server.server_address[1]}" for server in servers)
        threads = [threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True) for server in servers]
        for thread in threads:
            thread.start()
        try:
            yield self
        finally:
            for server in servers:
                server.shutdown()
                server.server_close()

    @property
    def bearer(self) -> str:
        return f"Bearer {self.token}"

    def drops_now(self) -> bool:
        with self.lock:
            self._files += 1
            return bool(self.drop_every) and self._files % self.drop_every == 0

    def is_empty(self) -> bool:
        with self.lock:
            self.empty_first -= 1
            return self.empty_first >= 0

    def has_expired(self, signature: str) -> bool:
        with self.lock:
            self._uses[signature] += 1
            return self.link_uses is not None and self._uses[signature] > self.link_uses

    def is_busy(self) -> bool:
        with self.lock:
            self.busy_first -= 1
            return self.busy_first >= 0

    def is_wrong(self) -> bool:
        with self.lock:
            self.wrong_first -= 1
            return self.wrong_first >= 0

    def stalls(self) -> bool:
        with self.lock:
            self.stalls_first -= 1
            return self.stalls_first >= 0

    def entry(self, file: Path) -> dict[str, object]:
        """A sibling as the hub's listing has it: weights by their sha256, small files by git's name."""
        name, content = file.relative_to(self.folder).as_posix(), {"size": file.stat().st_size}
        if is_weights(name):
            return {"rfilename": name, **content, "blobId": "0" * 40, "lfs": {"sha256": sha256(file), **content}}
        return {"rfilename": name, **content, "blobId": git_id(file)}


def file_name(path: str) -> str:
    """What follows the revision: the commit, or `main` as huggingface_hub asks."""
    return re.split(f"/resolve/(?:{COMMIT}|main)/", path, maxsplit=1)[-1]


def is_weights(name: str) -> bool:
    return name.endswith((".safetensors", ".gguf"))


def git_id(file: Path) -> str:
    return hashlib.sha1(b"blob %d\0" % file.stat().st_size + file.read_bytes()).hexdigest()


def sha256(file: Path) -> str:
    """Sparse files of many gigabytes are not hashed: nobody fetches them."""
    status = file.stat()
    if status.st_size > 10**8:
        return hashlib.sha256(f"{file.name} {status.st_size}".encode()).hexdigest()
    return _sha256(file, status.st_size, status.st_mtime_ns)


@cache
def _sha256(file: Path, size: int, changed: int) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


class _Server(ThreadingHTTPServer):
    def handle_error(self, *_: object) -> None:
        """A client that has read enough hangs up."""


class _Handler(BaseHTTPRequestHandler):
    hub: ClassVar[LoopbackHub]
    server_name: ClassVar[str]
    protocol_version = "HTTP/1.1"
    timeout = 20

    def do_HEAD(self) -> None:
        """As huggingface_hub asks before it downloads."""
        name = file_name(urlsplit(self.path).path)
        file = self.hub.folder / unquote(name)
        if not file.is_file():
            self.answer(404, b"", {"X-Error-Code": "EntryNotFound"})
            return
        told = sha256(file) if is_weights(name) else git_id(file)
        size = str(file.stat().st_size)
        self.send_response(200)
        for header, value in {"X-Repo-Commit": COMMIT, "ETag": f'"{told}"', "X-Linked-Etag": f'"{told}"'}.items():
            self.send_header(header, value)
        self.send_header("X-Linked-Size", size)
        self.send_header("Content-Length", size)
        self.end_headers()

    def do_GET(self) -> None:
        path = urlsplit(self.path).path
        with self.hub.lock:
            self.hub.seen.append(Seen(self.server_name, path, self.headers["Authorization"], self.headers["Range"]))
        if self.hub.is_busy():
            self.answer(429, b"slow down", {"Retry-After": self.hub.retry_after})
        elif (
            self.server_name == "hub" and self.hub.token and self.headers["Authorization"] != f"Bearer {self.hub.token}"
        ):
            self.answer(401, b"", {"X-Error-Message": "Invalid credentials"})
        elif path.startswith("/api/models/"):
            self.listing(path)
        elif "/resolve/" in path:
            self.resolve(path)
        elif self.server_name == "store" and self.hub.has_expired(urlsplit(self.path).query):
            self.answer(403, b"Request has expired")
        elif self.server_name == "store" and path.startswith("/store/"):
            self.file(self.hub.folder / unquote(path.removeprefix("/store/")))
        else:
            self.answer(404, b"")

    def listing(self, path: str) -> None:
        revision = path.rpartition("/")[2]
        if revision not in ("main", COMMIT, "v1"):
            self.answer(404, b"")
            return
        siblings = [self.hub.entry(file) for file in sorted(self.hub.folder.rglob("*")) if file.is_file()]
        self.answer(200, json.dumps({"sha": COMMIT, "siblings": siblings}).encode())

    def resolve(self, path: str) -> None:
        name = file_name(path)
        if self.hub.gated:
            self.answer(403, b"", {"X-Error-Message": "Access to this model is restricted"})
        elif self.hub.redirect and is_weights(name):
            signed = f"/store/{name}?signature={next(self.hub.signatures)}"
            self.answer(302, b"", {"Location": self.hub.store_url + signed})
        else:
            self.file(self.hub.folder / unquote(name))

    def file(self, path: Path) -> None:
        if not path.is_file():
            self.answer(404, b"")
            return
        if self.hub.is_empty():
            self.answer(200, b"")
            return
        size = path.stat().st_size
        start, stop, status = 0, size, 200
        if (wanted := self.headers["Range"]) and not self.hub.ignore_ranges:
            first, _, last = wanted.removeprefix("bytes=").partition("-")
            start, stop, status = int(first), min(int(last) + 1, size), 206
        self.send_response(status)
        self.send_header("Content-Length", str(stop - start))
        self.send_header("ETag", f'"{hashlib.sha256(f"{path.name}{size}".encode()).hexdigest()}"')
        if status == 206:
            self.send_header("Content-Range", f"bytes {start}-{stop - 1}/{size}")
        self.end_headers()
        weights = is_weights(path.name)
        drops, wrong = self.hub.drops_now(), weights and self.hub.is_wrong()
        stalls = weights and self.hub.stalls()
        with path.open("rb") as file:
            file.seek(start)
            left = (stop - start) // 2 if drops or stalls else stop - start
            while left > 0:
                piece = file.read(min(left, 1 << 16))
                if wrong:
                    piece, wrong = bytes([piece[0] ^ 1]) + piece[1:], False
                self.count(len(piece), weights)
                self.wfile.write(piece)
                left -= len(piece)
                if self.hub.bytes_per_second:
                    time.sleep(len(piece) / self.hub.bytes_per_second)
        if stalls:
            self.rfile.read(1)  # until the client hangs up
        if drops or stalls:
            self.close_connection = True

    def answer(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.count(len(body))
        self.wfile.write(body)

    def count(self, number: int, weights: bool = False) -> None:
        with self.hub.lock:
            self.hub.bytes_sent += number
            self.hub.weight_bytes_sent += number if weights else 0

    def log_message(self, *_: object) -> None:
        pass


if __name__ == "__main__":
    with LoopbackHub(Path(sys.argv[1])).running() as running:
        print(running.hub_url, flush=True)
        sys.stdin.read()
