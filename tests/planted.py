"""A real engine with something planted: a proxy before it that fails now and then, a program beside it that grows."""

from __future__ import annotations

import http.client
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar
from urllib.parse import urlsplit

LEAK = """import time
began, held, total = time.monotonic(), [], 0
while True:
    wanted = int({rate} * (time.monotonic() - began))
    held.append(b'x' * (wanted - total))
    total = wanted
    time.sleep(0.1)"""


@contextmanager
def failing(upstream: str, every: int) -> Iterator[str]:
    """The address of a server that passes everything on, but answers each so-many-th question with HTTP 500."""
    where = urlsplit(upstream)
    handler = type("Handler", (_Passing,), {"to": (where.hostname, where.port), "every": every, "counter": _Counter()})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


def leak_beside(home: Path, bytes_per_second: float) -> str:
    """Lines of an engine's wrapper: a child that waits at the fifo HOME/leak, and then grows for ever; its number is in
    HOME/leak.pid. It costs next to nothing while it waits, and starts nothing that others could stumble over."""
    grow = f'exec "{sys.executable}" -S -E -c "{LEAK.format(rate=bytes_per_second)}"'
    return (
        f'rm -f "{home}/leak"; mkfifo "{home}/leak"\n'
        f'(read -r _ <"{home}/leak" && {grow}) & echo $! >"{home}/leak.pid"\n'
    )


def leak(home: Path) -> None:
    """From now on."""
    with (home / "leak").open("w") as fifo:
        fifo.write("go\n")


def stop_leaking(home: Path) -> None:
    with suppress(ProcessLookupError):
        os.kill(int((home / "leak.pid").read_text()), signal.SIGKILL)


class _Counter:
    def __init__(self) -> None:
        self.lock, self.count = threading.Lock(), 0

    def next(self) -> int:
        with self.lock:
            self.count += 1
            return self.count


class _Passing(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    to: ClassVar[tuple[str, int]]
    every: ClassVar[int]
    counter: ClassVar[_Counter]

    def do_GET(self) -> None:
        self.pass_on(b"")

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.counter.next() % self.every:
            self.pass_on(body)
        else:
            self.begin(500, "application/json")
            self.wfile.write(b'{"error": {"message": "planted"}}')

    def pass_on(self, body: bytes) -> None:
        upstream = http.client.HTTPConnection(*self.to, timeout=120)
        kept = {name: value for name, value in self.headers.items() if name.lower() not in ("host", "connection")}
        upstream.request(self.command, self.path, body, kept)
        response = upstream.getresponse()
        self.begin(response.status, response.headers["Content-Type"] or "text/plain")
        while piece := response.read1(65_536):
            self.wfile.write(piece)
        upstream.close()

    def begin(self, status: int, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Connection", "close")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass
