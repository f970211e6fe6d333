"""Recording one's own agents: what was replayed through the proxy is what is recorded, and no word of it."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest

from upright.base.errors import UsageError
from upright.facts.records.loading import load
from upright.facts.records.trace import AgentTrace, TraceFork, TraceSession, TraceTurn
from upright.proof.benchmark.bench import subject
from upright.proof.benchmark.cell import CellPlace, measure
from upright.proof.benchmark.endpoints import address_endpoint
from upright.proof.benchmark.recording_proxy import TokenReading, _events, recording_proxy
from upright.proof.benchmark.trace_recorder import TraceRecorder
from upright.proof.benchmark.trace_replay import trace_shape


def said(*texts: str) -> dict[str, Any]:
    roles = ("user", "assistant")
    return {"messages": [{"role": roles[place % 2], "content": text} for place, text in enumerate(texts)]}


class Talker:
    """Puts turns to a recorder by the clock of a test."""

    def __init__(self) -> None:
        self.recorder = TraceRecorder()

    def ask(
        self, texts: tuple[str, ...], sent: float, ended: float, tokens: tuple[int, int] | None, **more: Any
    ) -> None:
        turn = self.recorder.began({**said(*texts), **more}, sent)
        assert turn is not None
        self.recorder.ended(turn, ended, tokens)

    def trace(self) -> AgentTrace:
        made = self.recorder.trace("t")
        assert made is not None
        return made


def test_a_session_grows_by_what_is_new() -> None:
    talk = Talker()
    talk.ask(("a",), 10, 12, (100, 20))
    talk.ask(("a", "b", "c"), 15, 16, (150, 10))
    assert talk.trace().sessions == (
        TraceSession(
            turns=(
                TraceTurn(new_tokens=100, output_tokens=20),
                TraceTurn(wait_seconds=3.0, new_tokens=30, output_tokens=10),
            )
        ),
    )


def test_what_failed_and_is_asked_again_is_one_turn() -> None:
    talk = Talker()
    talk.ask(("a",), 0, 1, None)
    talk.ask(("a",), 2, 3, (100, 20))
    talk.ask(("a", "b", "c"), 4, 5, None)
    talk.ask(("a", "b", "c"), 6, 7, (150, 10))
    agents = [session for session in talk.trace().sessions if session.forked_from is None]
    assert [len(session.turns) for session in agents] == [2]
    assert talk.recorder.failed == 2


def test_sub_agents_are_forks_and_are_waited_for() -> None:
    talk = Talker()
    talk.ask(("a",), 0, 2, (100, 20))
    parent = talk.recorder.began(said("a", "b", "one"), 3)
    fork = talk.recorder.began(said("a", "b", "two"), 3.5)
    assert parent is not None
    assert fork is not None
    talk.recorder.ended(parent, 5, (150, 10))
    talk.recorder.ended(fork, 6, (160, 10))
    talk.ask(("a", "b", "one", "d", "e"), 9, 10, (200, 5))
    first, second = talk.trace().sessions
    assert [turn.new_tokens for turn in first.turns] == [100, 30, 40]
    assert second.forked_from == TraceFork(session=1, turn=1, joined=False), "its turn 2 was sent before the fork ended"
    assert second.begins_seconds == 1.5
    assert second.turns == (TraceTurn(new_tokens=40, output_tokens=10),)


def test_a_session_that_waited_for_its_sub_agents_goes_on() -> None:
    """The sub-agents ask first: which of them is the session is known when it goes on."""
    talk = Talker()
    talk.ask(("a",), 0, 1, (100, 20))
    one = talk.recorder.began(said("a", "b", "task one"), 2)
    two = talk.recorder.began(said("a", "b", "task two"), 2.5)
    assert one is not None
    assert two is not None
    talk.recorder.ended(one, 4, (130, 10))
    talk.recorder.ended(two, 5, (140, 10))
    talk.ask(("a", "b", "task one", "c", "d"), 6, 7, (160, 10))
    talk.ask(("a", "b", "results"), 9, 10, (170, 10))
    first, second, third = talk.trace().sessions
    assert [turn.new_tokens for turn in first.turns] == [100, 50]
    assert first.turns[1].wait_seconds == 2.0, "since the last sub-agent ended"
    assert [turn.new_tokens for turn in second.turns] == [10, 20]
    assert [turn.new_tokens for turn in third.turns] == [20]
    for fork in (second, third):
        assert fork.forked_from == TraceFork(session=1, turn=1, joined=True)


def test_a_beginning_that_goes_on_alone_is_a_compaction() -> None:
    talk = Talker()
    talk.ask(("a",), 0, 1, (100, 20))
    talk.ask(("a", "b", "c"), 2, 3, (150, 10))
    talk.ask(("a", "summary", "go on"), 5, 6, (130, 10))
    talk.ask(("a", "summary", "go on", "d", "e"), 7, 8, (150, 10))
    (session,) = talk.trace().sessions
    assert [(turn.kept_tokens, turn.new_tokens, turn.wait_seconds) for turn in session.turns] == [
        (None, 100, 0.0), (None, 30, 1.0), (100, 30, 2.0), (None, 10, 1.0),
    ]  # fmt: skip


def test_what_sessions_share_and_marks_that_move() -> None:
    talk = Talker()
    system, tools = [{"type": "text", "text": "s" * 300, "cache_control": {"type": "ephemeral"}}], [{"name": "x" * 80}]
    talk.ask(("first",), 0, 1, (1000, 20), system=system, tools=tools)
    system[0].pop("cache_control")
    talk.ask(("second",), 1, 2, (1000, 20), system=system, tools=tools)
    talk.ask(("third",), 2, 3, (500, 20))
    first, second, third = talk.trace().sessions
    assert 850 < first.shared_tokens < 1000
    assert second.shared_tokens == pytest.approx(first.shared_tokens, abs=10)
    assert third.shared_tokens == 0


@pytest.mark.parametrize(
    ("event", "tokens"),
    [
        ({"usage": {"prompt_tokens": 7, "completion_tokens": 3}}, (7, 3)),
        ({"message": {"usage": {"input_tokens": 2, "cache_read_input_tokens": 5, "output_tokens": 1}}}, (7, 1)),
        ({"response": {"usage": {"input_tokens": 7, "output_tokens": 3}}}, (7, 3)),
        ({"timings": {"prompt_n": 2, "cache_n": 5, "predicted_n": 3}}, (7, 3)),
        ({"usage": {"prompt_tokens": "7", "completion_tokens": -3}}, None),
        ({"usage": []}, None),
        (["usage"], None),
    ],
)
def test_every_protocol_says_its_tokens_its_own_way(event: Any, tokens: tuple[int, int] | None) -> None:
    reading = TokenReading()
    reading.hear(event)
    assert reading.tokens == tokens


def replayed_through(url: str, made: AgentTrace, model: str = "scheduled") -> AgentTrace:
    """The generator is the client; what words cost is asked beside the proxy."""
    known, _ = address_endpoint(url, model, None, "chat")
    ready, recorder = subject(known), TraceRecorder()
    with recording_proxy(url, recorder) as address:
        through = replace(ready, target=replace(ready.target, base_url=address), metrics_path=None)
        cell = measure(through, trace_shape(made, made.agents), CellPlace("run", "agents", 1, 0), trace=made)
        assert (cell.errors, cell.unfinished) == ({}, 0)
    told = recorder.trace("recorded")
    assert told is not None
    return told


def test_what_was_replayed_is_recorded(url: str) -> None:
    """Lengths to the token, waits and forks; the first prompts to a word."""
    turns = (
        TraceTurn(new_tokens=100, output_tokens=4),
        TraceTurn(new_tokens=20, output_tokens=6, wait_seconds=0.2),
        TraceTurn(new_tokens=30, output_tokens=4, wait_seconds=0.1),
    )
    fork = TraceSession(
        forked_from=TraceFork(session=1, turn=2), turns=(TraceTurn(new_tokens=40, output_tokens=5),), begins_seconds=0.1
    )
    made = AgentTrace(title="t", source="s", sessions=(TraceSession(turns=turns), fork))
    told = replayed_through(url, made)
    first, second = told.sessions
    assert second.forked_from == fork.forked_from
    assert [turn.output_tokens for turn in first.turns] == [4, 6, 4]
    assert [turn.new_tokens for turn in first.turns] == pytest.approx([100, 20, 30], abs=1)
    assert [turn.new_tokens for turn in second.turns] == pytest.approx([40], abs=1)
    assert first.turns[1].wait_seconds >= 0.19
    assert second.begins_seconds >= 0.09
    assert first.turns[2].wait_seconds >= 0.09


class Upstream:
    """Answers one stream, and keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, str], bytes]] = []
        self.connections = 0

    @contextmanager
    def standing(self) -> Iterator[str]:
        upstream = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self) -> None:
                super().setup()
                upstream.connections += 1

            def do_GET(self) -> None:
                upstream.asked.append((self.path, dict(self.headers), b""))
                self._page(b'{"data": []}', "application/json")

            def do_POST(self) -> None:
                content = self.rfile.read(int(self.headers["content-length"]))
                upstream.asked.append((self.path, dict(self.headers), content))
                events = [b'{"choices": [{"delta": {"content": "hello"}}]}']
                if b'"include_usage": true' in content:
                    events.append(b'{"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 2}}')
                page = b"".join(b"data: %s\n\n" % event for event in (*events, b"[DONE]"))
                self._page(page, "text/event-stream")

            def _page(self, page: bytes, kind: str) -> None:
                self.send_response(200)
                self.send_header("content-type", kind)
                self.send_header("content-length", str(len(page)))
                self.end_headers()
                self.wfile.write(page)

            def log_message(self, *words: object) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()
            server.server_close()


def test_the_client_sees_what_it_asked_for_and_the_server_what_was_sent() -> None:
    """Also a number that Python would write otherwise."""
    upstream, recorder = Upstream(), TraceRecorder()
    content = b'{"stream":true, "seed": 12345678901234567890123, "messages":[{"role":"user","content":"secret plan"}]}'
    with upstream.standing() as url, recording_proxy(f"{url}/v1", recorder) as address:
        answer = httpx2.post(
            f"{address}/v1/chat/completions?a=b",
            content=content,
            headers={"Authorization": "Bearer mine"},
            trust_env=False,
        )
        assert httpx2.get(f"{address}/v1/models", trust_env=False).json() == {"data": []}
    assert b"hello" in answer.content
    assert b"[DONE]" in answer.content
    assert b"usage" not in answer.content
    path, headers, sent = upstream.asked[0]
    assert path == "/v1/chat/completions?a=b"
    assert {name.lower(): text for name, text in headers.items()}["authorization"] == "Bearer mine"
    assert sent.endswith(content[1:])
    made = recorder.trace("t")
    assert made is not None
    assert made.sessions[0].turns == (TraceTurn(new_tokens=9, output_tokens=2),)
    assert "secret" not in made.to_json()
    assert "secret" not in repr(vars(recorder))


def test_no_request_goes_over_a_connection_that_the_server_may_have_ended() -> None:
    upstream = Upstream()
    with upstream.standing() as url, recording_proxy(url, TraceRecorder()) as address:
        for _ in range(3):
            assert httpx2.get(f"{address}/v1/models", trust_env=False).status_code == 200
    assert upstream.connections == 3


@pytest.mark.parametrize(
    ("name", "length", "status"),
    [
        ("evil.example", "2", 403),
        ("127.0.0.1:1", "99999999999", 413),
        ("localhost", "-1", 413),
        ("localhost", "²", 413),
    ],
)
def test_pages_of_a_browser_and_endless_bodies_are_refused(name: str, length: str, status: int) -> None:
    upstream = Upstream()
    with upstream.standing() as url, recording_proxy(url, TraceRecorder()) as address:
        where = urlsplit(address)
        line = http.client.HTTPConnection(where.netloc, timeout=30)
        line.putrequest("POST", f"{where.path}/v1/chat/completions", skip_host=True)
        line.putheader("Host", name)
        line.putheader("Content-Length", length.encode())
        line.endheaders()
        line.send(b"{}")
        assert line.getresponse().status == status
        line.close()
    assert upstream.asked == []


@pytest.mark.parametrize("length", [1, 2, 3, 7, 1000])
def test_events_are_the_same_in_whatever_pieces_they_come(length: int) -> None:
    stream = b'data: {"a": 1}\n\ndata: {"b": 2}\r\n\r\n: waits\n\ndata: [DONE]'
    pieces = (stream[at : at + length] for at in range(0, len(stream), length))
    events = [b'data: {"a": 1}\n\n', b'data: {"b": 2}\r\n\r\n', b": waits\n\n", b"data: [DONE]"]
    assert list(_events(pieces)) == events


def test_what_is_no_address_is_refused_before_anybody_waits() -> None:
    with pytest.raises(UsageError, match="'nonsense' is not an address"), recording_proxy("nonsense", TraceRecorder()):
        pass


def test_a_server_that_is_gone_is_said(tmp_path: Path) -> None:
    recorder = TraceRecorder()
    with Upstream().standing() as url:
        pass
    with recording_proxy(url, recorder) as address:
        answer = httpx2.post(f"{address}/v1/messages", json=said("a"), trust_env=False, timeout=60)
    assert answer.status_code == 502
    assert "upright tools record: http://127.0.0.1" in answer.json()["error"]["message"]
    assert recorder.trace("t") is None


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_verb_keeps_what_it_has_when_it_is_ended(number: int, tmp_path: Path) -> None:
    file = tmp_path / "trace.json"
    environment = {**os.environ, "UPRIGHT_HOME": str(tmp_path / "home"), "NO_COLOR": "1", "PYTHONUNBUFFERED": "1"}
    with Upstream().standing() as url:
        argv = [sys.executable, "-m", "upright", "record", "--base-url", url, "-o", str(file)]
        with subprocess.Popen(argv, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment) as verb:
            assert verb.stderr is not None
            first = verb.stderr.readline()
            address = first.split("point your client at ")[1].split("/v1")[0]
            body = json.dumps({"stream": True, **said("a")})
            httpx2.post(f"{address}/v1/chat/completions", content=body, trust_env=False, timeout=60)
            verb.send_signal(number)
            shown, talk = verb.communicate(timeout=60)
    assert verb.returncode == 0, talk
    assert "1 agent, 0 forks, 1 turn" in shown
    assert f"--workload agents --trace {file}" in talk
    assert load(file, AgentTrace).sessions[0].turns[0].new_tokens == 9
