"""What the benchmark asks a server beside the load."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from upright.proof.benchmark.load import LoadTarget
from upright.proof.benchmark.server import Server


class _Closing(BaseHTTPRequestHandler):
    """Promises to keep the connection, and closes it when it is used again, as one whose patience is over."""

    protocol_version = "HTTP/1.1"
    answered = False

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        if self.answered:
            self.close_connection = True
            return
        self.answered = True
        body = json.dumps({"usage": {"prompt_tokens": 7}}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def closing() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Closing) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join(10)


def test_a_connection_closed_between_two_questions_is_no_failure(closing: str):
    with Server(LoadTarget(closing, "tiny-kimi")) as server:
        assert [server.prompt_tokens([{"role": "user", "content": "a"}]) for _ in range(3)] == [7, 7, 7]
