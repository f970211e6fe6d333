"""HTTP and server-sent events, however the bytes are cut into pieces."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from upright.proof.benchmark.load.wire import Events, Response, WireError

BODY = 'data: {"a": "é"}\n\ndata: {"b": 2}\r\n\r\nevent: x\ndata: one\ndata: two\n\n: hi\n\ndata: [DONE]\n\n'.encode()
WANTED = ['{"a": "é"}'.encode(), b'{"b": 2}', b"one\ntwo", b"[DONE]"]
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


def chunked(body: bytes, sizes: list[int]) -> bytes:
    out, at = b"", 0
    for size in [*sizes, len(body)]:
        piece = body[at : at + size]
        if piece:
            out += f"{len(piece):X};ext=1\r\n".encode() + piece + b"\r\n"
        at += size
    return HEAD + out + b"0\r\n\r\n"


@given(st.lists(st.integers(1, 40), max_size=8), st.lists(st.integers(1, 60), max_size=30))
def test_events_are_the_same_however_they_arrive(chunks: list[int], reads: list[int]):
    wire = chunked(BODY, chunks)
    response, events, found, at = Response(), Events(), [], 0
    for size in [*reads, len(wire)]:
        found += events.feed(response.feed(wire[at : at + size]))
        at += size
    assert found == WANTED
    assert response.finished
    assert response.is_stream
    assert response.status == 200


def test_a_body_with_a_length():
    response = Response()
    assert response.feed(b"HTTP/1.1 500 Oops\r\nContent-Length: 5\r\n\r\nab") == b"ab"
    assert not response.finished
    assert response.feed(b"cde") == b"cde"
    assert response.finished
    assert response.keep_alive


def test_a_body_until_the_connection_ends():
    response = Response()
    assert response.feed(b"HTTP/1.0 200 OK\r\n\r\nabc") == b"abc"
    assert not response.finished
    assert response.close()
    assert not response.keep_alive


def test_a_chunked_body_that_was_cut_is_not_whole():
    response = Response()
    response.feed(chunked(BODY, [10])[:-9])
    assert not response.close()


def test_100_continue_comes_before_the_answer():
    response = Response()
    assert response.feed(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok") == b"ok"
    assert response.status == 200


@pytest.mark.parametrize(
    "wire",
    [
        b"220 mail ESMTP\r\n\r\n",
        HEAD + b"xyz\r\n",
        HEAD + b"3\r\nabcdef\r\n",
        HEAD + b"FFFFFFFFFF\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"x" * 70_000,
    ],
)
def test_what_is_no_http_is_said_to_be_none(wire: bytes):
    with pytest.raises(WireError):
        Response().feed(wire)


@given(st.binary(max_size=200))
def test_no_bytes_make_it_do_anything_else(noise: bytes):
    try:
        Response().feed(HEAD + noise)
    except WireError:
        return
    Events().feed(noise)
