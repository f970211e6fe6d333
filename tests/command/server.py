"""requests on a socket -> forks of a process that has imported the house, each the command from then on.

It has read our rows too, planned once and read a log: what is made of our rows alone is made once, not in each fork.
What packages of others read of the environment as they are imported is left for the fork to import: `NOT_YET`.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import io
import json
import os
import pkgutil
import runpy
import selectors
import signal
import socket
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent.parent))
from tests.command.client import alike

NOT_YET = ("huggingface_hub", "uvloop", "triton")


def prepare() -> None:
    import upright

    for module in pkgutil.walk_packages(upright.__path__, "upright."):
        if "payload" not in module.name and "__main__" not in module.name:
            importlib.import_module(module.name)
    _read_ahead()
    early = [name for name in NOT_YET if name in sys.modules]
    assert not early, f"imported before the environment is known: {early}"
    gc.collect()
    gc.freeze()


def _read_ahead() -> None:
    """In an empty home, so that nobody's rows are among them."""
    import upright
    from upright.facts import catalog
    from upright.serving.diagnose import diagnose

    ours = dict(os.environ)
    with tempfile.TemporaryDirectory() as home:
        os.environ["UPRIGHT_HOME"] = home
        for kind in catalog.KINDS:
            catalog.rows(kind)
        upright.plan("kimi-k2.6", "hgx-b200")
        diagnose(io.BytesIO(), subject="nothing")
    os.environ.clear()
    os.environ.update(ours)


def serve(path: str) -> tuple[list[str], dict[str, str], str] | None:
    """Returns in a fork, with what it is to do; and in the server with None, when whoever started it is gone."""
    ours, children = dict(os.environ), {}
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(path)
    listener.listen(64)
    waiting = selectors.DefaultSelector()
    for file in (listener, 0):
        waiting.register(file, selectors.EVENT_READ)
    os.write(1, b"ready\n")
    while True:
        for key, _ in waiting.select():
            if key.fd == 0:
                return None
            if key.fileobj is listener:
                connection, _ = listener.accept()
                request, streams = _received(connection)
                if not alike(request[1], ours):
                    connection.sendall(b"0\n")
                    connection.close()
                elif (pid := os.fork()) == 0:
                    _become(streams, waiting, [listener, connection, *(each for _, each in children.values())])
                    return request
                else:
                    connection.sendall(b"%d\n" % pid)
                    ended = os.pidfd_open(pid)
                    children[ended] = (pid, connection)
                    waiting.register(ended, selectors.EVENT_READ)
                    waiting.register(connection, selectors.EVENT_READ, pid)
                for stream in streams:
                    os.close(stream)
                continue
            if key.data is not None:  # whoever asked is gone, and so is the command
                waiting.unregister(key.fileobj)
                os.kill(key.data, signal.SIGKILL)
                continue
            pid, connection = children.pop(key.fd)
            waiting.unregister(key.fd)
            os.close(key.fd)
            code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            if connection in waiting.get_map():
                waiting.unregister(connection)
                connection.sendall(b"%d\n" % code)
            connection.close()


def _received(connection: socket.socket) -> tuple[Any, list[int]]:
    length, streams, _, _ = socket.recv_fds(connection, 16, 3)
    content = b""
    while len(content) < int(length):
        content += connection.recv(int(length) - len(content))
    return json.loads(content.decode("utf-8", "surrogateescape")), streams


def _become(streams: list[int], waiting: selectors.BaseSelector, sockets: list[socket.socket]) -> None:
    """The streams of whoever asked, and nothing of the server's."""
    waiting.close()
    for each in sockets:
        each.close()
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    os.closerange(3, 1 + max(int(open_file.name) for open_file in Path("/proc/self/fd").iterdir()))


def _leave(code: object) -> None:
    """As an interpreter ends, but for taking a thousand modules apart one by one."""
    if isinstance(code, int):
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        with suppress(Exception):  # a stream that takes nothing more: the interpreter has words and a code for it
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code & 0xFF)
    sys.exit(code)  # type: ignore[arg-type]


if __name__ == "__main__":
    prepare()
    if (request := serve(sys.argv[1])) is not None:
        words, environment, folder = request
        os.environ.clear()
        os.environ.update(environment)
        time.tzset()
        os.chdir(folder)
        sys.path[0], sys.argv[1:] = folder, words
        try:
            runpy._run_module_as_main("upright")  # what `python -m upright` does
        except SystemExit as end:
            _leave(end.code)
