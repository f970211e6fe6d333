"""Tokens that move are life: a slow engine is waited for, a silent one is not."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from upright.base.errors import UnansweredError
from upright.serving.endpoint.client import Endpoint


@contextmanager
def slow_engine(seconds: float, *, moves: bool, look_seconds: float | None = None) -> Iterator[str]:
    """One whole answer after so long; its /slots count a token at each look, or none, or are refused after so long."""
    counted = [0]

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if look_seconds is not None:
                time.sleep(look_seconds)
                return self._say({}, status=404)
            counted[0] += moves
            slot = {"is_processing": True, "n_ctx": 64, "next_token": [{"n_decoded": counted[0]}]}
            return self._say([slot])

        def do_POST(self) -> None:
            time.sleep(seconds)
            self._say({"choices": [{"message": {"content": "OK"}, "finish_reason": "stop"}]})

        def _say(self, content: object, status: int = 200) -> None:
            body = json.dumps(content).encode()
            try:
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)
            except OSError:
                pass  # nobody waits any more

        def log_message(self, *words: object) -> None:
            """Silent."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def asked(url: str, *, watched: bool) -> str:
    with Endpoint(url, "slow", watched=watched) as endpoint:
        return endpoint.chat([{"role": "user", "content": "?"}], timeout_seconds=0.6, max_tokens=16).text


def test_an_answer_whose_tokens_move_is_waited_for() -> None:
    with slow_engine(2.5, moves=True) as url:
        assert asked(url, watched=True) == "OK"


@pytest.mark.parametrize(("moves", "watched"), [(False, True), (True, False)])
def test_silence_is_the_end(moves: bool, watched: bool) -> None:
    with slow_engine(4, moves=moves) as url:
        began = time.monotonic()
        with pytest.raises(UnansweredError):
            asked(url, watched=watched)
        assert time.monotonic() - began < 3


def test_a_look_outlives_its_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """The connection is closed between the watcher's two questions, /slots and /metrics."""
    raised: list[threading.ExceptHookArgs] = []
    monkeypatch.setattr(threading, "excepthook", raised.append)
    before = set(threading.enumerate())
    with slow_engine(0.4, moves=False, look_seconds=0.6) as url:
        assert asked(url, watched=True) == "OK"
        for thread in set(threading.enumerate()) - before:
            if "watch" in thread.name:
                thread.join(timeout=5)
    assert not raised
