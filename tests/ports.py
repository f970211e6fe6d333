"""Ports that stay free until somebody binds them: each is given away once, below those that the kernel chooses from."""

from __future__ import annotations

import fcntl
import os
import socket
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import gettempdir

_FIRST, _END = 12_000, 32_000
_NEXT = Path(gettempdir()) / f"upright-test-ports-{os.getuid()}"


def free_port() -> int:
    """Of 20,000 in turn, whoever asks: a test that starts an engine a minute later finds it free, and no connection
    that goes out has taken it."""
    with _NEXT.open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        port = int(file.read() or _FIRST)
        while not _is_free(port):
            port = _after(port)
        file.truncate(0)
        file.write(str(_after(port)))
    return port


@contextmanager
def alone_on(ports: Iterable[int]) -> Iterator[None]:
    """Nobody else who asks has these meanwhile, which are written on a page."""
    with ExitStack() as held:
        for port in sorted(set(ports)):
            file = held.enter_context(_NEXT.with_name(f"{_NEXT.name}-{port}").open("a"))
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _after(port: int) -> int:
    return port + 1 if port + 1 < _END else _FIRST


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
