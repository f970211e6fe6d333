"""httpx2 keeps what `bounds.client` relies on: it takes no backend for its pool, so ours is put where it keeps its own.

If a release moves that place, this fails, and so does `bounds.client`: it reads the old backend before it puts the new
one there, so no client is ever made without its clock.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator

import httpx2
import pytest
from httpcore2 import ConnectionPool, NetworkBackend

from upright.base import bounds
from upright.base.bounds.sockets import TimedBackend


@pytest.fixture
def dripping() -> Iterator[str]:
    """A server that sends a byte of a header now and then, for ever."""
    stop = threading.Event()
    listening = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        connection, _ = listening.accept()
        with connection:
            connection.recv(4096)
            connection.sendall(b"HTTP/1.1 200 OK\r\nX: ")
            while not stop.wait(0.02):
                try:
                    connection.sendall(b"x")
                except OSError:
                    return

    thread = threading.Thread(target=serve)
    thread.start()
    yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    stop.set()
    thread.join(10)
    listening.close()


@pytest.mark.parametrize("proxied", [False, True])
def test_every_pool_of_a_client_has_our_clock(proxied: bool, monkeypatch: pytest.MonkeyPatch):
    for name in (
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "ALL_PROXY",
        "http_proxy",
        "https_proxy",
        "all_proxy",
        "NO_PROXY",
        "no_proxy",
    ):
        monkeypatch.delenv(name, raising=False)
    if proxied:
        monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
        monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")
    with bounds.client() as client:
        transports = [each for each in (client._transport, *client._mounts.values()) if each is not None]
        assert len(transports) == (3 if proxied else 1)
        for transport in transports:
            assert isinstance(transport, httpx2.HTTPTransport)
            assert isinstance(transport._pool, ConnectionPool)
            assert isinstance(transport._pool._network_backend, TimedBackend)


def test_the_pool_uses_the_backend_that_it_keeps(dripping: str):
    """Bytes come all the time, so no timeout of a socket is ever met: only the clock ends it."""
    with bounds.client(timeout=30) as client:
        began = time.monotonic()
        with bounds.time_limit(0.5), pytest.raises(httpx2.TimeoutException):
            client.get(dripping)
        assert time.monotonic() - began < 3


def test_a_client_whose_place_has_moved_is_not_made(monkeypatch: pytest.MonkeyPatch):
    class Moved:
        """A pool of another release."""

    def init(self: httpx2.HTTPTransport, *words: object, **options: object) -> None:
        self._pool = Moved()  # type: ignore[assignment]

    monkeypatch.setattr(httpx2.HTTPTransport, "__init__", init)
    with pytest.raises(AttributeError):
        bounds.client()


def test_a_backend_is_what_ours_is():
    assert issubclass(TimedBackend, NetworkBackend)
    for name in ("connect_tcp", "connect_unix_socket", "sleep"):
        assert name in vars(TimedBackend)
