"""A fork that answers as what it was forked from is told by its own header."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from upright.proof.ladder.servers import server_target
from upright.serving.endpoint.client import Endpoint


@contextmanager
def llama_server(name: str) -> Iterator[str]:
    """What both forks say of a model and of a slot."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            said: object = {"data": [{"id": "m", "owned_by": "llamacpp"}]}
            if self.path == "/props":
                said = {"total_slots": 2, "build_info": "b4500-abc", "default_generation_settings": {"n_ctx": 64}}
            body = json.dumps(said).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def version_string(self) -> str:
            return name

        def log_message(self, *words: object) -> None:
            """Silent."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize(
    ("header", "engine"),
    [("ik_llama.cpp", "ik_llama.cpp"), ("llama.cpp", "llama.cpp"), ("nginx", "llama.cpp"), ("x" * 900, "llama.cpp")],
)
def test_the_fork_is_told_by_its_header(header: str, engine: str) -> None:
    with llama_server(header) as url, Endpoint(url, "m") as endpoint:
        target = server_target(endpoint)
    assert (target.engine, target.engine_version, target.context_tokens, target.users) == (engine, "b4500-abc", 64, 2)
