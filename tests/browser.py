"""A folder -> a page of it in a real Chromium, driven by the DevTools protocol over a pipe; no port, no other tool."""

from __future__ import annotations

import base64
import contextlib
import functools
import http.server
import itertools
import json
import os
import select
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

PATIENCE = 300.0
"""Seconds: two busy cores are no bug."""
_PIECE_BYTES = 1 << 16


class Line:
    """A line to the internet of so many bytes a second."""

    def __init__(self, bytes_per_second: float) -> None:
        self._rate, self._free_at, self._lock = bytes_per_second, 0.0, threading.Lock()

    def wait(self, count: int) -> None:
        with self._lock:
            self._free_at = max(self._free_at, time.monotonic()) + count / self._rate
            until = self._free_at
        time.sleep(max(0.0, until - time.monotonic()))


class Handler(http.server.SimpleHTTPRequestHandler):
    extensions_map: ClassVar[dict[str, str]] = {  # type: ignore[misc]
        **http.server.SimpleHTTPRequestHandler.extensions_map,
        ".mjs": "text/javascript",
        ".js": "text/javascript",
        ".wasm": "application/wasm",
        ".json": "application/json",
    }

    def copyfile(self, source: Any, outputfile: Any) -> None:
        """At the line's rate, where one is set: all that is asked for together shares it."""
        line: Line | None = self.server.line  # type: ignore[attr-defined]
        while piece := source.read(_PIECE_BYTES):
            if line is not None:
                line.wait(len(piece))
            outputfile.write(piece)

    def log_message(self, *_: object) -> None:
        self.server.reached.append(self.path)  # type: ignore[attr-defined]


@contextlib.contextmanager
def served(folder: Path, reached: list[str] | None = None, line: Line | None = None) -> Iterator[str]:
    """As any file server would, on loopback; what was asked of it is appended to `reached`."""
    handler = functools.partial(Handler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.line = line  # type: ignore[attr-defined]
        server.reached = [] if reached is None else reached  # type: ignore[attr-defined]
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/"
        finally:
            server.shutdown()
            thread.join()


class Page:
    """One tab."""

    def __init__(self, send: Callable[..., Any], session: str) -> None:
        self._send, self._session = send, session
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: Any) -> Any:
        return self._send(method, params, self._session)

    def go(self, address: str) -> None:
        self.call("Page.navigate", url=address)

    def run(self, script: str) -> Any:
        """What the expression comes to, once its promise is kept."""
        came = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in came, came["exceptionDetails"]
        return came["result"].get("value")

    def until(self, script: str, seconds: float = PATIENCE) -> Any:
        deadline = time.monotonic() + seconds
        while not (came := self.run(f"(() => {{ try {{ return {script} }} catch (error) {{ return null }} }})()")):
            assert time.monotonic() < deadline, f"never: {script}; the page says {self.run('document.body.innerText')}"
            time.sleep(0.1)
        return came

    def ready(self) -> float:
        """Seconds that the worker took."""
        return float(self.until("document.getElementById('status').dataset.seconds"))

    def settled(self) -> None:
        """Until an answer is shown."""
        self.until("document.getElementById('shown').getAttribute('aria-busy') === 'false'")

    def drawn(self) -> None:
        """Until an answer is shown with every point of its curves."""
        self.settled()
        quiet = 0
        while quiet < 5:
            planner = "window.upright.planner"
            quiet = quiet + 1 if self.run(f"!{planner}.busy && !{planner}.waiting.length") else 0
            time.sleep(0.2)

    def ask(self, question: dict[str, Any]) -> Any:
        return self.run(f"window.upright.ask({json.dumps(question)})")

    def size(self, width: int, height: int, *, dark: bool = False) -> None:
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def picture(self, file: Path, *, whole: bool = True) -> None:
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        file.write_bytes(base64.b64decode(shot["data"]))


class Chromium:
    """A browser process with a profile of its own."""

    def __init__(self, profile: Path) -> None:
        program = shutil.which("chromium") or shutil.which("google-chrome")
        assert program, "these tests need a real browser: apt-get install chromium"
        theirs_in, self._to = os.pipe()
        self._from, theirs_out = os.pipe()
        words = [program, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        words += ["--no-first-run", "--disable-background-networking", "--disable-component-update", "--mute-audio"]
        words += [f"--user-data-dir={profile}", "--remote-debugging-pipe", "about:blank"]
        script = f'exec "$@" 3<&{theirs_in} 4>&{theirs_out}'
        self._process = subprocess.Popen(
            ["bash", "-c", script, "chromium", *words],
            pass_fds=(theirs_in, theirs_out),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._numbers, self._rest = itertools.count(1), b""
        self.events: list[dict[str, Any]] = []

    def page(self, *, private: bool = False) -> Page:
        where = (
            {"browserContextId": self.send("Target.createBrowserContext", {})["browserContextId"]} if private else {}
        )
        target = self.send("Target.createTarget", {"url": "about:blank", **where})["targetId"]
        session = self.send("Target.attachToTarget", {"targetId": target, "flatten": True})["sessionId"]
        return Page(self.send, session)

    def send(self, method: str, params: dict[str, Any], session: str | None = None) -> Any:
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": params, **({"sessionId": session} if session else {})}
        os.write(self._to, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + PATIENCE
        while True:
            reply = self._next(deadline, method)
            if reply.get("id") == number:
                assert "error" not in reply, f"{method}: {reply['error']}"
                return reply["result"]
            self.events.append(reply)

    def _next(self, deadline: float, method: str) -> dict[str, Any]:
        while b"\0" not in self._rest:
            readable, _, _ = select.select([self._from], [], [], max(0.0, deadline - time.monotonic()))
            assert readable, f"the browser did not answer {method}"
            piece = os.read(self._from, 1 << 20)
            assert piece, f"the browser ended during {method}"
            self._rest += piece
        text, _, self._rest = self._rest.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        return message

    def close(self) -> None:
        os.close(self._to)
        os.close(self._from)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


@contextlib.contextmanager
def chromium(profile: Path) -> Iterator[Chromium]:
    browser = Chromium(profile)
    try:
        yield browser
    finally:
        browser.close()
