"""A web page: open in a browser of the same machine, it asks loopback ports with the person's own browser."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

import pytest

from upright.proof.benchmark.recording_proxy import recording_proxy
from upright.proof.benchmark.trace_recorder import TraceRecorder

NOT_PROMISED = ("that an engine refuses a page by itself: what it answers is its own setting; its key stands between",)


@contextmanager
def _open_engine(asked: list[str]) -> Iterator[str]:
    """It lets every page read its answers, as many engines do."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.rfile.read(int(self.headers.get("content-length", "0")))
            self.send_response(200)
            self.send_header("Access-Control-Allow-Origin", self.headers.get("origin", "*"))
            self.send_header("Access-Control-Allow-Credentials", "true")
            self.send_header("content-length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        do_POST = do_OPTIONS = do_GET  # noqa: N815 - http.server's own names

        def log_message(self, *words: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


def _answer(address: str, method: str, headers: dict[str, str]) -> http.client.HTTPResponse:
    where = urlsplit(address)
    line = http.client.HTTPConnection(where.netloc, timeout=30)
    line.request(method, f"{where.path}/v1/chat/completions", b"{}" if method == "POST" else None, headers)
    answer = line.getresponse()
    answer.read()
    line.close()
    return answer


@pytest.mark.promise("`record` hands on nothing that a page of another origin asks, and lets none read an answer")
@pytest.mark.parametrize("method", ["POST", "GET", "OPTIONS"])
@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://localhost:3000"},
        {"Origin": ""},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
    ids=str,
)
def test_a_page_of_another_origin_is_refused(headers: dict[str, str], method: str):
    asked: list[str] = []
    with _open_engine(asked) as url, recording_proxy(url, TraceRecorder()) as address:
        answer = _answer(address, method, headers)
    assert answer.status == (501 if method == "OPTIONS" else 403)
    assert asked == []
    assert not any(name.lower().startswith("access-control") for name, _ in answer.getheaders())


@pytest.mark.promise("`record` hands on nothing that a page of another origin asks, and lets none read an answer")
@pytest.mark.parametrize("origin", [None, "itself"])
def test_a_client_is_answered_without_leave_for_pages(origin: str | None):
    asked: list[str] = []
    with _open_engine(asked) as url, recording_proxy(url, TraceRecorder()) as address:
        answer = _answer(address, "POST", {"Origin": address.rpartition("/")[0]} if origin else {})
    assert (answer.status, asked) == (200, ["/v1/chat/completions"])
    assert not any(name.lower().startswith("access-control") for name, _ in answer.getheaders())


@pytest.mark.promise("`record` answers only under the address that it printed: whoever guesses the port has no token")
@pytest.mark.parametrize(
    "path", ["", "/", "//", "/x", "/{other}", "/%7Btoken%7D", "/{token}x", "/{token_less}", "/?{token}"]
)
def test_an_address_without_its_token_is_refused(path: str):
    asked: list[str] = []
    with _open_engine(asked) as url, recording_proxy(url, TraceRecorder()) as address:
        base, _, token = address.rpartition("/")
        words = {"token": token, "token_less": token[:-1], "other": "A" * len(token)}
        answers = [_answer(base + path.format(**words), method, {}) for method in ("POST", "GET")]
        whole = _answer(address, "POST", {})
    assert [answer.status for answer in answers] == [403, 403]
    assert (whole.status, asked) == (200, ["/v1/chat/completions"])
    assert len(token) >= 20
