"""words, environment, folder and streams -> the exit code of a command that a server of ours forked.

Also a program of its own, started with -IS so that it costs a fiftieth of a second: `client.py SOCKET WORDS...`.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import socket
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    import subprocess

FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
AT_START = ("PYTHON", "LC_", "LANG", "MALLOC_", "LD_")
"""What an interpreter or its loader reads once, as it starts: a fork is too late for those."""


def alike(environment: dict[str, str], other: dict[str, str]) -> bool:
    """Whether an interpreter would start the same way in both."""
    names = {name for name in (*environment, *other) if name.startswith(AT_START)}
    return all(environment.get(name) == other.get(name) for name in names)


class Call:
    """One command under way."""

    def __init__(
        self, path: str, words: list[str], environment: dict[str, str], folder: str, streams: list[int]
    ) -> None:
        self.connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.connection.connect(path)
        content = json.dumps([words, environment, folder]).encode("utf-8", "surrogateescape")
        socket.send_fds(self.connection, [b"%16d" % len(content)], streams)
        self.connection.sendall(content)
        self.answers = self.connection.makefile("rb")
        self.pid = int(self.answers.readline())
        """0: the server was started in another environment, and this is not for it."""

    def close(self) -> None:
        """A command whose caller is gone is ended."""
        self.answers.close()
        self.connection.close()

    def code(self) -> int:
        """As `Popen.returncode`; waits for it."""
        line = self.answers.readline()
        if not line:
            raise RuntimeError("the server of commands is gone")
        return int(line)


def finished(
    path: str, words: list[str], environment: dict[str, str], folder: str, timeout: float
) -> subprocess.CompletedProcess[str] | None:
    """Waits for its end, and for the end of both streams. None: the server is not for this environment."""
    import subprocess

    pipes = [os.pipe() for _ in range(2)]
    try:
        call = Call(path, words, environment, folder, [0, pipes[0][1], pipes[1][1]])
    finally:
        for _, theirs in pipes:
            os.close(theirs)
    try:
        deadline = time.monotonic() + timeout
        texts = _read([ours for ours, _ in pipes], deadline)
        if texts is None:
            raise subprocess.TimeoutExpired(["upright", *words], timeout)
        if call.pid == 0:
            return None
        return subprocess.CompletedProcess(["upright", *words], call.code(), texts[0], texts[1])
    finally:
        call.close()


def _read(streams: list[int], deadline: float) -> list[str] | None:
    parts: dict[int, list[bytes]] = {stream: [] for stream in streams}
    with selectors.DefaultSelector() as waiting:
        for stream in streams:
            waiting.register(stream, selectors.EVENT_READ)
        try:
            while waiting.get_map():
                if not (ready := waiting.select(deadline - time.monotonic())) and time.monotonic() >= deadline:
                    return None
                for key, _ in ready:
                    if part := os.read(key.fd, 65536):
                        parts[key.fd].append(part)
                    else:
                        waiting.unregister(key.fd)
        finally:
            for stream in streams:
                os.close(stream)
    return [b"".join(parts[stream]).decode().replace("\r\n", "\n").replace("\r", "\n") for stream in streams]


def main() -> None:
    path, words, environment = sys.argv[1], sys.argv[2:], dict(os.environ)
    held = signal.pthread_sigmask(signal.SIG_BLOCK, FORWARDED)
    call = Call(path, words, environment, os.getcwd(), [0, 1, 2])  # noqa: PTH109 - pathlib takes its time
    if call.pid == 0:
        signal.pthread_sigmask(signal.SIG_SETMASK, held)
        os.execv(sys.executable, [sys.executable, "-m", "upright", *words])
    for number in FORWARDED:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda sent, _: os.kill(call.pid, sent))
    signal.pthread_sigmask(signal.SIG_SETMASK, held)
    code = call.code()
    if code < 0:
        signal.signal(-code, signal.SIG_DFL) if -code != signal.SIGKILL else None
        os.kill(os.getpid(), -code)
    os._exit(code)


if __name__ == "__main__":
    main()
