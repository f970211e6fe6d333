"""A folder -> a page of it in a real Firefox, driven by Marionette: JSON with its length before it, on loopback."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.browser import PATIENCE, Page

_PORT_FILE = "MarionetteActivePort"
_SETTINGS = {
    "marionette.port": 0,  # any that is free; the browser writes which
    "app.update.enabled": False,
    "browser.safebrowsing.malware.enabled": False,
    "browser.safebrowsing.phishing.enabled": False,
    "browser.shell.checkDefaultBrowser": False,
    "datareporting.policy.dataSubmissionEnabled": False,
    "dom.max_script_run_time": 0,
    "extensions.update.enabled": False,
    "network.captive-portal-service.enabled": False,
    "network.connectivity-service.enabled": False,
    "toolkit.telemetry.enabled": False,
}
_RUN = """
const [script, done] = arguments;
const promise = new Promise((resolve) => resolve(new Function(`return (${script})`)()));
promise.then((came) => done({came}), (error) => done({error: String(error)}));
"""


class Firefox:
    """A browser process with a profile of its own."""

    def __init__(self, profile: Path) -> None:
        program = shutil.which("firefox-esr") or shutil.which("firefox")
        assert program, "this test needs a real Firefox: apt-get install firefox-esr"
        lines = [f"user_pref({json.dumps(name)}, {json.dumps(setting)});" for name, setting in _SETTINGS.items()]
        (profile / "user.js").write_text("\n".join(lines))
        self._process = subprocess.Popen(
            [program, "--headless", "--no-remote", "--marionette", "--profile", str(profile)],
            env={**os.environ, "HOME": str(profile), "MOZ_CRASHREPORTER_DISABLE": "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._numbers, self._open = itertools.count(1), contextlib.ExitStack()
        try:
            self._socket = self._open.enter_context(self._connected(profile / _PORT_FILE))
            self._from = self._open.enter_context(self._socket.makefile("rb"))
            self._next()  # who it is
            self.send("WebDriver:NewSession", {})
            milliseconds = int(1000 * PATIENCE)
            self.send("WebDriver:SetTimeouts", {"script": milliseconds, "pageLoad": milliseconds})
        except BaseException:
            self.end()
            raise

    def _connected(self, file: Path) -> socket.socket:
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            assert self._process.poll() is None, f"Firefox ended with {self._process.returncode}"
            with contextlib.suppress(OSError, ValueError):
                return socket.create_connection(("127.0.0.1", int(file.read_text())), PATIENCE)
            time.sleep(0.1)
        raise AssertionError("Firefox did not start")

    def send(self, method: str, params: dict[str, Any]) -> Any:
        number = next(self._numbers)
        text = json.dumps([0, number, method, params]).encode()
        self._socket.sendall(b"%d:%s" % (len(text), text))
        _, answered, error, result = self._next()
        assert error is None, f"{method}: {error}"
        assert answered == number
        return result

    def _next(self) -> Any:
        digits = b""
        while (digit := self._from.read(1)) != b":":
            assert digit, "Firefox ended"
            digits += digit
        return json.loads(self._from.read(int(digits)))

    def page(self) -> FirefoxPage:
        return FirefoxPage(self)

    def end(self) -> None:
        self._open.close()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


class FirefoxPage(Page):
    """Its one tab."""

    def __init__(self, browser: Firefox) -> None:
        self._browser = browser

    def go(self, address: str) -> None:
        self._browser.send("WebDriver:Navigate", {"url": address})

    def run(self, script: str) -> Any:
        came = self._browser.send("WebDriver:ExecuteAsyncScript", {"script": _RUN, "args": [script]})["value"]
        assert "error" not in came, came["error"]
        return came.get("came")


@contextlib.contextmanager
def firefox(profile: Path) -> Iterator[Firefox]:
    browser = Firefox(profile)
    try:
        yield browser
    finally:
        browser.end()
