"""Key files beside this file + smg's flags -> smg, with no key on any command line, and 503 while it cannot answer.

Run by smg's own Python as `python -B FOLDER FLAGS...`, on machines that have no Upright. FOLDER holds this file,
workers.json, and client.key, worker.key and admin.key (or $CREDENTIALS_DIRECTORY holds the keys).

Two processes: a keeper has the port from the first moment on, and answers 503 with Retry-After while smg starts, loads
its guard, or has died; then smg, its child, takes that same socket for its own, and no byte goes through the keeper.
"""

from __future__ import annotations

import base64
import ctypes
import json
import os
import re
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
import zlib
from contextlib import suppress
from pathlib import Path
from typing import Any

# guard.c, compiled, wrapped and deflated: scripts/make-guard writes it here.
GUARD = (
    "eNrtVU+P21QQn3nv+U/y4sTeBSFRCTnmQDhYvS1SL8RCYVkVWrQqQhxQamKzm2wSe21nt2FVkkMPK7SVeubEsd+AXhDXHjkgziDx"
    "AThw6A3G/9Ku1O4XAEfRm3kz85uf34zngZ/ODEDAH5tAIgIAvs3vGqsXnm9xdVcpJBJEuXLBAZlQMEZEhSMwVccVeo8eCqldF+os"
    "nEXJkkEzmrtJeLwI0wxAFkoaR/M0BNSS0J9OoxGw5h+C/8VRWbG+rQ0M8KBr8L6t2oYnsonT7gF0O6xf/2zaEN7ppK2gEAKEJH+T"
    "/hbFdGxz4gLYpvf9+XoNuZzaVtK1aAcnjukZuwZI2/L+wWODe9Bjj3M/x7LbXmtCiXYNblsDg+VJ9G6bYDs5PEG37U4B3fGePIc2"
    "k65pW7RH4B2CbjH5cjqPXk6n8QIdtqFDmBUd8ltOHGuXCBErvIrVz69mJSXh5CmQyHlPvyPHHbZ+SAupuMP+vCjF8/PC8vvFxvJr"
    "JT67KCy/VCq7AU8rEd7l6zzsPf6s3umxJ2WKB3kKOhIqJDExbK3g4hWhUodKCJCv8qC/c60r3oeuQkUW1EsP1mCLa5428e4dO6rN"
    "J46w1T0DcrOteGbm8E8McrH5kWeeUI4+eKsPi7e0xU4JaKsdSa0nfxMMvLUue28KAIP63KS1Qes914/H7lG4BH+RHUbJ+Bs/G0dz"
    "AO+xLn8Qn326v7f70R33g4/3BrfuuDcHX8B/+qnP4/Pb+zcH+/+fBxP50NRMTJiY+7MwVU78Kc072UJQD0M/CBNO9gGPMb6faDQZ"
    "qcmCVMR+dpgqNBmTZaqVfikTX0XBkjeriemOg7Q1j07dMI5Gh+4sPZUGglZZuQDtrRKVq2nmZ4v0rAZSCyBNthH0euJyHbTb2tEZ"
    "RWCcxveP2olSxTVlFeemYSY3ih8ErXatJDTRT0KjlQOTEk/9UdiR2wjGLArGXy9df5R/NtwEzcFjro+ieTaeL0IANQkn4SjDM1BL"
    "V7SgOJ0qYgu0JvaR03spsK2+Q8eFly4ORr7lhZJb6ntDb+YHzzgIfE2TBCDyN20QQq9AuHTbXAHBGEfBX1cchpfS0qV4GQRR3mLQ"
    "TWcHNw78LDz1l9dn4yCYkpSE7vNAhWg5V3mVcArl/gnbo2hGajjP3Lx7sAkWgnKw8JMAJWwR7fE8HQchXsPiNh3W7GQhV8y+5E2o"
    "aj/EquuEXrkOlbpl9EYdMWxs+sLUyqoMrao8W1pZmOF2VSF8Q2FQo6W4AUn/BZXSh3o="
)
_FIELD = 272
_PATIENCE_SECONDS = 120
_CHILD = "UPRIGHT_ROUTER_CHILD"
"""In smg's own process: the numbers of the socket that it is to take, and of the pipe on which it says that it has."""
_PLAIN = 71
"""smg's exit code where its socket could not be replaced: then it has the port itself, and answers 401 at first."""
_BUSY = json.dumps(
    {"error": {"message": "the router is starting", "type": "service_unavailable", "code": 503}}
).encode()
_REPLY = (
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 2\r\nContent-Type: application/json\r\n"
    b"Connection: close\r\nContent-Length: %d\r\n\r\n%s" % (len(_BUSY), _BUSY)
)
_LATE = threading.BoundedSemaphore(256)
"""Clients that are answered at once; more wait in the kernel."""


def main() -> None:
    if _CHILD in os.environ:
        _serve(*map(int, os.environ[_CHILD].split()))
    else:
        _Keeper().run()


class _Keeper:
    """Has the port, keeps smg running, and answers while smg cannot."""

    def __init__(self) -> None:
        from smg.launch_router import parse_router_args

        settings = parse_router_args(sys.argv[1:])
        self.listener: socket.socket | None = socket.create_server((settings.host, settings.port), backlog=1024)
        self.listener.setblocking(False)
        self.stopping = False
        signal.signal(signal.SIGTERM, self._stop)
        signal.signal(signal.SIGINT, self._stop)

    def run(self) -> None:
        falls = 0
        while True:
            began = time.monotonic()
            code = self._smg()
            if self._ends():
                sys.exit(0)
            if code == _PLAIN and self.listener is not None:
                self.listener.close()
                self.listener = None
                continue
            falls = 0 if time.monotonic() - began > 60 else falls + 1
            print(f"smg ended with code {code}; it is started again", flush=True)
            if falls == 5:
                sys.exit(70)
            self._answer(None, until=time.monotonic() + min(2**falls, 10) / 2)
            if self._ends():
                sys.exit(0)

    def _ends(self) -> bool:
        return self.stopping

    def _smg(self) -> int:
        """One life of smg; its exit code."""
        reading, writing = os.pipe()
        listener = self.listener.fileno() if self.listener is not None else -1
        self.child = subprocess.Popen(
            [sys.executable, "-B", sys.argv[0], *sys.argv[1:]],
            env={**os.environ, _CHILD: f"{listener} {writing}"},
            pass_fds=[writing] if listener < 0 else [writing, listener],
            preexec_fn=_die_with_parent,
        )
        os.close(writing)
        self._answer(reading)
        os.close(reading)
        return self.child.wait()

    def _answer(self, pipe: int | None, until: float | None = None) -> None:
        """503 to whoever asks, but while smg has said that it answers; until it is gone, or that time has come."""
        serving = False
        while until is None or time.monotonic() < until:
            waited = [pipe] if pipe is not None else []
            if self.listener is not None and (not serving or self.stopping):
                waited.append(self.listener.fileno())
            ready, _, _ = select.select(waited, [], [], 0.2)
            if pipe is not None and pipe in ready:
                if not os.read(pipe, 1):
                    return
                serving = True
            elif ready and self.listener is not None:
                with suppress(OSError):
                    client, _ = self.listener.accept()
                    _LATE.acquire()
                    threading.Thread(target=_busy, args=(client,), daemon=True).start()

    def _stop(self, number: int, frame: Any) -> None:
        self.stopping = True
        if (child := getattr(self, "child", None)) is not None:
            with suppress(ProcessLookupError):
                child.send_signal(signal.SIGTERM)


def _busy(client: socket.socket) -> None:
    """503, once the request is there: a client that is refused before it has asked takes the line for broken."""
    try:
        with client, suppress(OSError):
            client.settimeout(2)
            head = b""
            while b"\r\n\r\n" not in head and len(head) < 65_536 and (piece := client.recv(8192)):
                head += piece
            client.sendall(_REPLY)
            client.shutdown(socket.SHUT_WR)
            deadline = time.monotonic() + 5
            while time.monotonic() < deadline and client.recv(65_536):  # its body: closing on it would reset the line
                pass
    finally:
        _LATE.release()


def _die_with_parent() -> None:
    """However the keeper ends: two smg on one port would be worse than none."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def _serve(listener: int, pipe: int) -> None:
    """smg itself, on a port of its own until its guard is there."""
    from smg.launch_router import launch_router, parse_router_args

    folder = Path(sys.argv[0]).resolve()
    keys = {name: _key(folder, name) for name in ("client", "worker", "admin")}
    flags = [
        *sys.argv[1:],
        *("--discovery-provider", "file", "--discovery-file", str(folder / "workers.json"), "--enable-wasm"),
        *("--api-key", keys["worker"], "--control-plane-api-keys", f"upright:upright:admin:{keys['admin']}"),
    ]
    settings = parse_router_args(flags)
    if listener >= 0:
        settings.host = "127.0.0.1"
        with socket.create_server(("127.0.0.1", 0)) as probe:
            settings.port = probe.getsockname()[1]
    host = "127.0.0.1" if settings.host in ("0.0.0.0", "::") else settings.host  # noqa: S104
    base_url = f"http://{f'[{host}]' if ':' in host else host}:{settings.port}"

    def open_up() -> None:
        _guard(base_url, keys)
        if listener >= 0 and not _replaced(settings.port, listener):
            print("smg's socket could not be replaced: it is started on the port itself", flush=True)
            os._exit(_PLAIN)
        print("clients are let in by their key", flush=True)
        os.write(pipe, b"1")

    threading.Thread(target=open_up, daemon=True).start()
    launch_router(settings)


class _Event(ctypes.Structure):
    """epoll_event: packed on x86-64 alone."""

    _pack_ = 1 if os.uname().machine == "x86_64" else 0
    _fields_ = (("events", ctypes.c_uint32), ("data", ctypes.c_uint64))


def _replaced(port: int, listener: int) -> bool:
    """smg's listening socket is from now on the keeper's: the same number in this process, watched by the same epoll.

    What waits in the keeper's socket is reported when it is added, so that nobody who asked meanwhile is lost."""
    own = next((number for number in _numbers() if _listens_on(number, port)), None)
    for epoll in _numbers():
        try:
            watched = Path(f"/proc/self/fdinfo/{epoll}").read_text()
        except OSError:
            continue
        entry = re.search(rf"^tfd: +{own} events: +([0-9a-f]+) data: +([0-9a-f]+)", watched, re.MULTILINE)
        if own is None or entry is None:
            continue
        event = _Event(int(entry[1], 16), int(entry[2], 16))
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.epoll_ctl(epoll, 2, own, None) != 0:
            return False
        os.dup2(listener, own, inheritable=False)
        return bool(libc.epoll_ctl(epoll, 1, own, ctypes.byref(event)) == 0)
    return False


def _numbers() -> list[int]:
    return [int(path.name) for path in Path("/proc/self/fd").iterdir()]


def _listens_on(number: int, port: int) -> bool:
    try:
        with socket.socket(fileno=os.dup(number)) as twin:
            return bool(twin.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)) and twin.getsockname()[1] == port
    except (OSError, IndexError, TypeError):
        return False


def guard(client: str, worker: str) -> bytes:
    """The middleware with these keys in it."""
    code = bytearray(zlib.decompress(base64.b64decode(GUARD)))
    for mark, key in ((b"UPRIGHT-CLIENT-KEY", client), (b"UPRIGHT-WORKER-KEY", worker)):
        bearer = f"Bearer {key}".encode("ascii")
        if len(bearer) > _FIELD - 16:
            sys.exit("a key has more than 249 characters")
        at = code.index(mark)
        code[at : at + _FIELD] = struct.pack("<I12x", len(bearer)) + bearer.ljust(_FIELD - 16, b"\0")
    return bytes(code)


def _key(folder: Path, name: str) -> str:
    path = Path(os.environ.get("CREDENTIALS_DIRECTORY") or folder) / f"{name}.key"
    key = path.read_text().strip()
    if not key:
        sys.exit(f"{path} is empty")
    return key


def _guard(base_url: str, keys: dict[str, str]) -> None:
    """Hand the middleware to smg once it listens; without it, every client is refused."""
    descriptor, path = tempfile.mkstemp(suffix=".wasm")
    with os.fdopen(descriptor, "wb") as file:
        file.write(guard(keys["client"], keys["worker"]))
    module = {
        "name": "keys",
        "file_path": path,
        "module_type": "Middleware",
        "attach_points": [{"Middleware": "OnRequest"}],
    }
    request = urllib.request.Request(  # noqa: S310
        f"{base_url}/wasm",
        data=json.dumps({"modules": [module]}).encode(),
        headers={"Authorization": f"Bearer {keys['admin']}", "Content-Type": "application/json"},
    )
    no_proxy = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    deadline, last_reply = time.monotonic() + _PATIENCE_SECONDS, "it never listened"
    try:
        while time.monotonic() < deadline:
            time.sleep(0.1)
            try:
                with no_proxy.open(request, timeout=30) as response:
                    last_reply = response.read().decode()
            except OSError as error:
                last_reply = str(error)
                continue
            if '"Success"' in last_reply:
                return
    finally:
        Path(path).unlink()
    print(f"smg did not take the middleware that checks clients' keys: {last_reply}", flush=True)
    os._exit(70)


if __name__ == "__main__":
    main()
