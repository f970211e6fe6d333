"""A server that does what no server should: one behaviour at a time, on loopback, to whoever asks it anything."""

from __future__ import annotations

import contextlib
import json
import re
import socket
import struct
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager

OK = b"HTTP/1.1 200 OK\r\n"
JSON = OK + b"Content-Type: application/json\r\n"
EVENTS = OK + b"Content-Type: text/event-stream\r\n"
CHOICE = {"index": 0, "message": {"role": "assistant", "content": "Paris"}, "finish_reason": "stop"}
ANSWER = {
    "id": "a",
    "object": "list",
    "data": [{"id": "m"}],
    "choices": [CHOICE],
    "usage": {"prompt_tokens": 3, "completion_tokens": 1},
}
_BLOCK = b"x" * 65_536
_STEP_SECONDS = 0.02


class Peer:
    """One connection, as a behaviour sees it."""

    def __init__(self, connection: socket.socket, stop: threading.Event, request: bytes, url: str) -> None:
        self.connection, self.stop, self.request, self.url = connection, stop, request, url

    def send(self, *pieces: bytes) -> None:
        for piece in pieces:
            self.connection.sendall(piece)

    def forever(self, piece: bytes, seconds: float = 0.0) -> None:
        while not self.stop.wait(seconds) if seconds else not self.stop.is_set():
            self.connection.sendall(piece)

    def wait(self) -> None:
        """Until the client hangs up."""
        with contextlib.suppress(OSError):
            while not self.stop.is_set() and self.connection.recv(65_536):
                pass

    def whole(self, body: bytes, head: bytes = JSON) -> None:
        self.send(head + b"Content-Length: %d\r\n\r\n" % len(body), body)

    def told(self, value: object) -> None:
        self.whole(json.dumps(value).encode())


def _events(*bodies: object) -> bytes:
    return b"".join(
        b"data: " + (body if isinstance(body, bytes) else json.dumps(body).encode()) + b"\n\n" for body in bodies
    )


def _delta(text: str, **more: object) -> dict[str, object]:
    return {"choices": [{"index": 0, "delta": {"content": text}, **more}]}


def _bomb() -> bytes:
    """About 10 kB that become 10 MB, again and again: members of one gzip file."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    return packer.compress(b" " * 10_000_000) + packer.flush()


BOMB = _bomb()


def _endless_line(peer: Peer) -> None:
    peer.send(EVENTS + b"\r\ndata: ")
    peer.forever(_BLOCK)


def _endless_body(peer: Peer) -> None:
    peer.send(JSON + b"\r\n")
    peer.forever(_BLOCK)


def _chunks_forever(peer: Peer) -> None:
    peer.send(JSON + b"Transfer-Encoding: chunked\r\n\r\n")
    peer.forever(b"10000\r\n" + _BLOCK + b"\r\n")


def _pieces_forever(peer: Peer) -> None:
    peer.send(EVENTS + b"\r\n")
    peer.forever(_events(_delta("word ")) * 500)


def _empty_events_forever(peer: Peer) -> None:
    peer.send(EVENTS + b"\r\n")
    peer.forever(b"data: {}\n\n" * 5_000)


def _comments(peer: Peer) -> None:
    peer.send(EVENTS + b"\r\n")
    peer.forever(b":\n", _STEP_SECONDS)


def _drip(peer: Peer) -> None:
    peer.send(JSON + b"\r\n")
    peer.forever(b" ", _STEP_SECONDS)


def _byte_a_second(peer: Peer) -> None:
    peer.send(JSON + b"\r\n")
    peer.forever(b" ", 1.0)


def _hangs_after_headers(peer: Peer) -> None:
    peer.send(EVENTS + b"\r\n")
    peer.wait()


def _unavailable(peer: Peer) -> None:
    peer.send(b"HTTP/1.1 503 Loading\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}")


def _slow_then_fast(peer: Peer) -> None:
    """Nothing for two seconds, then a stream faster than anybody asked for, without end."""
    peer.stop.wait(2.0)
    _pieces_forever(peer)


def _slow_head(peer: Peer) -> None:
    peer.send(OK + b"X-Slow: ")
    peer.forever(b"a", _STEP_SECONDS)


def _half_open(peer: Peer) -> None:
    peer.wait()


def _closed(peer: Peer) -> None:
    """At once, with nothing said."""


def _reset(peer: Peer) -> None:
    peer.send(EVENTS + b"\r\n" + _events(_delta("Pa")))
    peer.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def _too_short(peer: Peer) -> None:
    peer.send(JSON + b"Content-Length: 5000\r\n\r\n", json.dumps(ANSWER).encode())


def _two_lengths(peer: Peer) -> None:
    peer.send(JSON + b"Content-Length: 2\r\nContent-Length: 90\r\n\r\n{}")


def _absurd_length(peer: Peer) -> None:
    peer.send(JSON + b"Content-Length: " + b"9" * 5_000 + b"\r\n\r\n{}")


def _absurd_chunk(peer: Peer) -> None:
    peer.send(JSON + b"Transfer-Encoding: chunked\r\n\r\n")
    peer.forever(b"f" * 4096)


def _redirects(peer: Peer) -> None:
    peer.send(b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:9/elsewhere\r\nContent-Length: 0\r\n\r\n")


def _redirect_loop(peer: Peer) -> None:
    peer.send(b"HTTP/1.1 307 Again\r\nLocation: " + peer.url.encode() + b"/v1/again\r\nContent-Length: 0\r\n\r\n")


def _endless_error(peer: Peer) -> None:
    peer.send(b"HTTP/1.1 500 Broken\r\nContent-Type: text/html\r\n\r\n")
    peer.forever(_BLOCK)


def _gigantic_header(peer: Peer) -> None:
    peer.send(OK + b"X-Big: ")
    peer.forever(_BLOCK)


def _many_headers(peer: Peer) -> None:
    peer.send(OK)
    peer.forever(b"X-Many: 1\r\n" * 5_000)


def _continues_forever(peer: Peer) -> None:
    peer.forever(b"HTTP/1.1 100 Continue\r\n\r\n" * 500)


def _nested(peer: Peer) -> None:
    peer.whole(b"[" * 200_000 + b"]" * 200_000)


def _many_values(peer: Peer) -> None:
    peer.whole(b'{"choices":[' + b"{}," * 1_400_000 + b"{}]}")


def _bomb_answer(peer: Peer) -> None:
    peer.send(JSON + b"Content-Encoding: gzip\r\n\r\n")
    peer.forever(BOMB)


def _trailing_garbage(peer: Peer) -> None:
    peer.whole(json.dumps(ANSWER).encode() + b"}]garbage")


def _nul_bytes(peer: Peer) -> None:
    peer.whole(b"\0" * 300_000)


def _not_json(peer: Peer) -> None:
    peer.whole(b"<html>Welcome to nginx!</html>", OK + b"Content-Type: text/html\r\n")


def _not_http(peer: Peer) -> None:
    peer.send(b"SSH-2.0-OpenSSH_9.2\r\n" + b"\xff" * 40_000)


def _broken_letters(peer: Peer) -> None:
    peer.whole(json.dumps(ANSWER).encode().replace(b"Paris", b"\xff\xfe\x80Par\xc3"))


def _huge_numbers(peer: Peer) -> None:
    body = json.dumps(ANSWER).replace('"prompt_tokens": 3', f'"prompt_tokens": {"9" * 4_000}')
    peer.whole(body.replace('"completion_tokens": 1', '"completion_tokens": 1e999').encode())


def _two_of_a_key(peer: Peer) -> None:
    peer.whole(json.dumps(ANSWER).encode().replace(b'"id": "a"', b'"choices": 1, "data": 7, "id": "a"'))


def _wrong_kinds(peer: Peer) -> None:
    peer.told({"choices": 7, "data": {"id": []}, "usage": "much", "siblings": {"a": 1}, "sha": [1], "error": 0})


def _wrong_pieces(peer: Peer) -> None:
    calls = {"choices": [{"delta": {"tool_calls": [{"index": 10**18, "function": 3}]}}]}
    chunks = (
        7, [1], {"choices": 7}, {"choices": [{"delta": [1], "logprobs": [1]}]}, calls,
        {"choices": [{"delta": {"tool_calls": 3}}]}, {"usage": {"completion_tokens": []}},
        b"[" * 100_000, b'{"usage": {"completion_tokens": 1e999}}', b"\xff\xfe", b"{",
    )  # fmt: skip
    peer.send(EVENTS + b"\r\n" + _events(*chunks) + b"data: [DONE]\n\n")


Behaviour = Callable[[Peer], None]
BEHAVIOURS: dict[str, Behaviour] = {
    name.removeprefix("_").replace("_", " "): behave
    for name, behave in list(globals().items())
    if name.startswith("_") and getattr(behave, "__annotations__", {}).get("peer") == "Peer"
}


SLOW_OR_HOSTILE = (
    "byte a second", "endless line", "half open", "hangs after headers", "gigantic header", "comments", "reset",
    "unavailable", "slow then fast", "too short", "redirect loop", "pieces forever",
)  # fmt: skip
"""Twelve that a budget must end, each for a reason of its own."""


def _well(peer: Peer) -> None:
    """Answers whole questions, and counts a token a word."""
    body = peer.request.partition(b"\r\n\r\n")[2]
    asked = json.loads(body) if body else {}
    words = " ".join(str(message.get("content")) for message in asked.get("messages", ()))
    text = str(asked.get("content", ""))
    usage = {"prompt_tokens": 3 + len(words.split()), "completion_tokens": 1, "total_tokens": 4 + len(words.split())}
    peer.told({**ANSWER, "usage": usage, "tokens": [1] * len(text.split())})


@contextmanager
def hostile(behaviour: str, *, to_streams: bool = False) -> Iterator[str]:
    """The address of a server that does this to every request; or only to streams, and answers others well."""
    stop, ill = threading.Event(), BEHAVIOURS[behaviour]

    def behave(peer: Peer) -> None:
        well = to_streams and re.search(rb'"stream": ?true', peer.request) is None
        (_well if well else ill)(peer)

    listener = socket.create_server(("127.0.0.1", 0), backlog=32)
    listener.settimeout(0.1)
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    serving: list[threading.Thread] = []

    def accept() -> None:
        while not stop.is_set():
            with contextlib.suppress(TimeoutError):
                connection, _ = listener.accept()
                serving.append(threading.Thread(target=_serve, args=(connection, behave, stop, url), daemon=True))
                serving[-1].start()

    accepting = threading.Thread(target=accept, daemon=True)
    accepting.start()
    try:
        yield url
    finally:
        stop.set()
        accepting.join(5)
        listener.close()
        for thread in serving:
            thread.join(5)


def _serve(connection: socket.socket, behave: Behaviour, stop: threading.Event, url: str) -> None:
    with connection, contextlib.suppress(OSError):
        connection.settimeout(5)
        request = _request(connection)
        if request:
            behave(Peer(connection, stop, request, url))
            connection.settimeout(1)
            connection.shutdown(socket.SHUT_WR)


def _request(connection: socket.socket) -> bytes:
    """All of it: a server that closes before it has read everything resets the connection."""
    request = b""
    while b"\r\n\r\n" not in request:
        if not (piece := connection.recv(65_536)):
            return request
        request += piece
    length = re.search(rb"(?i)\r\ncontent-length: (\d+)", request)
    while length and len(request.partition(b"\r\n\r\n")[2]) < int(length[1]):
        request += connection.recv(65_536)
    return request
