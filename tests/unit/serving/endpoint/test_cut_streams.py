"""A stream that a router cut and ended with [DONE], as recorded, and one that merely stops: nobody calls it whole."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from upright.facts.records.benchmark import Api
from upright.proof.benchmark.load.apis import LoadTarget
from upright.proof.benchmark.load.exchange import Exchange
from upright.proof.benchmark.load.requests import Request
from upright.proof.benchmark.load.wire import Response
from upright.serving.connect.responses_stream import responses_faults
from upright.serving.connect.streams import anthropic_error, anthropic_faults, openai_faults
from upright.serving.endpoint.client import Answer
from upright.serving.endpoint.guards import complaints
from upright.serving.endpoint.streaming import Assembly

STREAMS = Path(__file__).parents[3] / "recordings/streams"
SAYS = "error reading a body from connection"


def raw(api: str) -> bytes:
    return (STREAMS / f"smg-cut-{api}.http").read_bytes()


def lines(api: str) -> list[str]:
    return Response().feed(raw(api)).decode().splitlines()


def without_the_error(stream: bytes) -> bytes:
    """As from a server that says nothing and still ends with [DONE]; a comment takes the place, as long as it was."""
    begin = stream.index(b'data: {"error"')
    end = stream.index(b"\n", begin)
    return stream[:begin] + b":" + b"x" * (end - begin - 1) + stream[end:]


@pytest.mark.parametrize("api", ["chat", "completions", "responses"])
def test_the_recordings_end_as_if_all_were_well(api: str):
    stream = raw(api)
    assert b"data: [DONE]" in stream
    assert stream.endswith(b"\r\n0\r\n\r\n"), "HTTP is whole"
    assert b'"finish_reason":"' not in stream
    assert b"response.completed" not in stream


def answered(stream: list[str]) -> Answer:
    assembly = Assembly()
    for line in stream:
        assembly.take(line)
    return Answer({}, assembly.response(), 1.0)


def test_our_client_calls_it_cut_and_quotes_the_error():
    answer = answered(lines("chat"))
    assert answer.text or answer.reasoning
    assert answer.response["stream"] == {"done": True, "cut": False}
    (first, *_) = complaints(answer)
    assert first.guard == "cut"
    assert SAYS in first.what


def test_our_client_calls_it_cut_without_the_error_too():
    stream = Response().feed(without_the_error(raw("chat"))).decode().splitlines()
    answer = answered(stream)
    assert answer.response["stream"]["done"]
    (first, *_) = complaints(answer)
    assert (first.guard, first.what) == ("cut", "no finish_reason: the answer was cut")


@pytest.mark.parametrize(
    ("api", "change", "kind"),
    [
        ("chat", bytes, "error event"),
        ("completions", bytes, "error event"),
        ("messages", bytes, "error event"),
        ("chat", without_the_error, "no finish_reason"),
        ("completions", without_the_error, "no finish_reason"),
    ],
)
def test_the_load_generator_counts_it_as_a_fault(api: Api, change: Callable[[bytes], bytes], kind: str):
    target = LoadTarget("http://127.0.0.1:1", "tiny-kimi", api)
    exchange = Exchange(Request(b"", None))
    fault = exchange.take(change(raw(api)), 1.0, target.read) or exchange.fault()
    assert fault is not None
    assert fault.kind == kind


def test_the_client_checks_call_it_a_fault():
    assert openai_faults(lines("chat")) == ["[DONE] after an error, as if all were well"]
    assert "no finish reason" in openai_faults(Response().feed(without_the_error(raw("chat"))).decode().splitlines())
    assert SAYS in (anthropic_error(lines("messages")) or "")
    assert anthropic_faults([line for line in lines("messages") if '"error"' not in line and line != "event: error"])
    assert responses_faults(lines("responses"))
