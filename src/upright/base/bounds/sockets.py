"""Sockets of a pool -> the same, but none reads or writes beyond the end of the request that it works for."""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable, Iterable
from typing import Any

from httpcore2 import ConnectTimeout, NetworkBackend, NetworkStream, ReadTimeout, WriteTimeout

Left = Callable[[], float | None]
_SLICE_SECONDS = 1.0


class TimedBackend(NetworkBackend):
    """Connects as the one behind it does."""

    def __init__(self, inner: NetworkBackend, left: Left) -> None:
        self._inner, self._left = inner, left

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> NetworkStream:
        timeout = _shorter(timeout, self._left(), ConnectTimeout)
        return _TimedStream(self._inner.connect_tcp(host, port, timeout, local_address, socket_options), self._left)

    def connect_unix_socket(
        self, path: str, timeout: float | None = None, socket_options: Iterable[Any] | None = None
    ) -> NetworkStream:
        timeout = _shorter(timeout, self._left(), ConnectTimeout)
        return _TimedStream(self._inner.connect_unix_socket(path, timeout, socket_options), self._left)

    def sleep(self, seconds: float) -> None:
        self._inner.sleep(seconds)


class _TimedStream(NetworkStream):
    def __init__(self, inner: NetworkStream, left: Left) -> None:
        self._inner, self._left = inner, left

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """In slices, since the end may be moved while it waits."""
        over = None if timeout is None else time.monotonic() + timeout
        while True:
            left = _shorter(None if over is None else max(0.0, over - time.monotonic()), self._left(), ReadTimeout)
            try:
                return self._inner.read(max_bytes, _SLICE_SECONDS if left is None else min(left, _SLICE_SECONDS))
            except ReadTimeout:
                if over is not None and time.monotonic() >= over:
                    raise

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._inner.write(buffer, _shorter(timeout, self._left(), WriteTimeout))

    def close(self) -> None:
        self._inner.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> NetworkStream:
        timeout = _shorter(timeout, self._left(), ConnectTimeout)
        return _TimedStream(self._inner.start_tls(ssl_context, server_hostname, timeout), self._left)

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)


def _shorter(timeout: float | None, left: float | None, late: type[Exception]) -> float | None:
    if left is None:
        return timeout
    if left <= 0:
        raise late("the request is at its end")
    return left if timeout is None else min(timeout, left)
