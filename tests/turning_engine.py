"""A llama-server that turns: the real one behind a door of ours, until a file appears; then what it says is hostile.

Started as the real one is, by `program_of`; whatever is not a server's start is handed on to the real program.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shlex
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

from tests.hostile_server import BEHAVIOURS, Peer
from tests.ports import free_port
from upright.engines.llamacpp.proof import PARSER

_PR_SET_PDEATHSIG = 1


def program_of(folder: Path, real: Path, behaviour: str, turn: Path) -> Path:
    """A program that a person could have named for theirs."""
    program = folder / "llama-server"
    words = shlex.join([sys.executable, "-m", "tests.turning_engine", str(real), behaviour, str(turn)])
    root = shlex.quote(str(Path(__file__).parent.parent))
    program.write_text(f'#!/bin/sh\nPYTHONPATH={root} exec {words} "$@"\n')
    program.chmod(0o755)
    return program


def main() -> None:
    real, behaviour, turn, *argv = sys.argv[1:]
    if "--port" not in argv or argv[-len(PARSER.words) :] == list(PARSER.words):
        os.execv(real, [real, *argv])
    place = argv.index("--port") + 1
    outer, inner = int(argv[place]), free_port()
    argv[place] = str(inner)
    engine = subprocess.Popen([real, *argv], preexec_fn=_ends_with_us)
    signal.signal(signal.SIGTERM, lambda *_: engine.terminate())
    listener = socket.create_server(("127.0.0.1", outer))

    def accept() -> None:
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=_served, args=(connection, inner, behaviour, Path(turn)), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    sys.exit(engine.wait())


def _ends_with_us() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _served(connection: socket.socket, inner: int, behaviour: str, turn: Path) -> None:
    with connection, contextlib.suppress(OSError):
        if turn.exists():
            url = f"http://127.0.0.1:{connection.getsockname()[1]}"
            BEHAVIOURS[behaviour](Peer(connection, threading.Event(), connection.recv(1 << 20), url))
            return
        with socket.create_connection(("127.0.0.1", inner)) as engine:
            there = threading.Thread(target=_handed_on, args=(connection, engine), daemon=True)
            there.start()
            _handed_on(engine, connection)


def _handed_on(source: socket.socket, to: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while piece := source.recv(65_536):
            to.sendall(piece)
        to.shutdown(socket.SHUT_WR)


if __name__ == "__main__":
    main()
