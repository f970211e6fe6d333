"""A stranger's server: an address that a person was told to try. It sees every request, and may send it elsewhere."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Upright
from upright.base.errors import EndpointError
from upright.serving.endpoint.client import Endpoint

KEY = "sk-planted-mine"
PLANTED = {"OPENAI_API_KEY": "sk-planted-openai", "ANTHROPIC_API_KEY": "sk-planted-anthropic", "HF_TOKEN": "hf_planted"}


class Stranger(ThreadingHTTPServer):
    """Names one model and keeps what it was sent; with `away` it sends everybody there."""

    def __init__(self, away: str | None = None, status: int = 307) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.away, self.status = away, status
        self.seen: list[str] = []
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    server: Stranger

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode(errors="replace")
        self.server.seen.append(f"{self.command} {self.path}\n{self.headers}\n{body}")
        if self.server.away:
            self.send_response(self.server.status)
            self.send_header("Location", f"{self.server.away}{self.path}")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        answer: dict[str, Any] = {"error": "no"}
        if self.path == "/v1/models":
            answer = {"object": "list", "data": [{"id": "m", "object": "model"}]}
        text = json.dumps(answer).encode()
        self.send_response(200 if self.path == "/v1/models" else 401)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def do_POST(self) -> None:
        self.do_GET()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def stranger() -> Iterator[Stranger]:
    server = Stranger()
    yield server
    server.shutdown()
    server.server_close()


@pytest.mark.promise("no key is sent to a server unless the person named it for that server")
def test_prove_sends_no_key_of_its_own_accord(stranger: Stranger, upright: Upright):
    upright("prove", "--base-url", stranger.url, "--to", "boot", **PLANTED)
    assert stranger.seen
    assert not [seen for seen in stranger.seen if "planted" in seen or "authorization" in seen.lower()]


@pytest.mark.promise("no key is sent to a server unless the person named it for that server")
def test_prove_sends_the_key_that_was_named(stranger: Stranger, upright: Upright):
    upright("prove", "--base-url", stranger.url, "--to", "boot", "--key-env", "MINE", MINE=KEY, **PLANTED)
    assert all(f"Bearer {KEY}" in seen for seen in stranger.seen[:1])
    assert not [seen for seen in stranger.seen if any(other in seen for other in PLANTED.values())]
    done = upright("prove", "--base-url", stranger.url, "--key-env", "UNSET", **PLANTED)
    assert (done.returncode, done.stderr.splitlines()[0]) == (2, "error: UNSET is not set, or empty")


@pytest.mark.promise("no key is sent to a server unless the person named it for that server")
def test_bench_sends_no_key_of_its_own_accord(stranger: Stranger, upright: Upright):
    words = ("--base-url", stranger.url, "--model", "m", "--requests", "1", "--repeats", "1", "--concurrency", "1")
    upright("bench", *words, "--no-self-test", "--workload", "short", "--budget", "5s", **PLANTED)
    assert stranger.seen
    assert not [seen for seen in stranger.seen if "planted" in seen or "authorization" in seen.lower()]


@pytest.mark.promise("no key is sent to a server unless the person named it for that server")
def test_a_tool_that_measures_is_given_no_key_of_its_own_accord(stranger: Stranger, upright: Upright, tmp_path: Path):
    """`vllm bench` sends whatever OPENAI_API_KEY it finds."""
    tool = tmp_path / "vllm"
    tool.write_text(f"#!/bin/sh\nenv >{tmp_path}/given\nexit 3\n")
    tool.chmod(0o755)
    words = ("--base-url", stranger.url, "--model", "m", "--with", "vllm", "--program", tool, "--workload", "short")
    done = upright("bench", *words, **PLANTED)
    assert done.returncode == 2, done.stderr
    given = (tmp_path / "given").read_text()
    assert "PATH=" in given
    assert "planted" not in given


@pytest.mark.promise("a key stays with the host that it was given for: a redirect to another does not carry it")
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_carries_no_key(stranger: Stranger, status: int):
    first = Stranger(away=stranger.url, status=status)
    try:
        with Endpoint(first.url, "m", key=KEY) as endpoint:
            for ask in (endpoint.models, lambda: endpoint.chat([]), lambda: endpoint.stream([])):
                with pytest.raises(EndpointError, match=f"HTTP {status}"):
                    ask()
    finally:
        first.shutdown()
        first.server_close()
    assert all(KEY in seen for seen in first.seen)
    assert stranger.seen == []


@pytest.mark.promise("a key stays with the host that it was given for: a redirect to another does not carry it")
def test_a_redirect_of_a_load_carries_no_key(stranger: Stranger, tmp_path: Path):
    first = Stranger(away=stranger.url)
    (tmp_path / "key").write_text(KEY)
    words = ("--base-url", first.url, "--model", "m", "--requests", "2", "--repeats", "1", "--concurrency", "1")
    argv = [sys.executable, "-m", "upright", "bench", *words, "--no-self-test", "--workload", "short", "--budget", "5s"]
    environment = {**os.environ, "UPRIGHT_HOME": str(tmp_path / "home")}
    subprocess.run([*argv, "--key-file", str(tmp_path / "key")], env=environment, capture_output=True, timeout=60)
    first.shutdown()
    first.server_close()
    assert first.seen
    assert stranger.seen == []
