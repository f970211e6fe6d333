"""A stream put together again is the answer that it would have been in one piece."""

from __future__ import annotations

import json
from typing import Any

import httpx2
import pytest

from tests.scripted.engine import Fault, ScriptedEngine
from upright.base.errors import EndpointError
from upright.proof.ladder.prompts import prompt_set
from upright.serving.endpoint.client import Answer, Endpoint
from upright.serving.endpoint.streaming import Assembly

PROMPTS = prompt_set("real")


def asked(engine: ScriptedEngine, ask: str, *, stream: bool, **options: Any) -> Answer:
    with Endpoint("http://scripted/v1/", engine.model, transport=engine.transport()) as endpoint:
        put = endpoint.stream if stream else endpoint.chat
        return put([{"role": "user", "content": ask}], **options)


@pytest.mark.parametrize("dialogue", PROMPTS.dialogues, ids=lambda row: f"{row.check} {row.ask[:20]}")
def test_both_ways_give_the_same_message(dialogue: Any) -> None:
    engine = ScriptedEngine(PROMPTS, context_tokens=65_536)
    options = {"tools": PROMPTS.declared(dialogue.tools), "chat_template_kwargs": {"thinking": True}}
    whole = asked(engine, dialogue.ask, stream=False, **options)
    streamed = asked(engine, dialogue.ask, stream=True, **options)
    assert streamed.text == whole.text
    assert streamed.tool_calls == whole.tool_calls
    assert streamed.reasoning == whole.reasoning != ""
    assert streamed.finish_reason == whole.finish_reason
    assert (streamed.prompt_tokens, streamed.completion_tokens) == (whole.prompt_tokens, whole.completion_tokens)
    assert streamed.first_seconds is not None


def test_a_cut_stream_has_no_finish_reason() -> None:
    engine = ScriptedEngine(PROMPTS, Fault("cut"), context_tokens=65_536)
    seen = asked(engine, PROMPTS.smoke[1].ask, stream=True)
    assert seen.finish_reason is None
    assert PROMPTS.smoke[1].sample.startswith(seen.text)


@pytest.mark.parametrize("line", ["", ": comment", "event: ping", "data: [DONE]", "data: 5", "data: {", "data: {}"])
def test_lines_that_carry_nothing(line: str) -> None:
    assert Assembly().take(line) is False


def test_a_chunk_that_is_no_json_is_kept() -> None:
    assembly = Assembly()
    assembly.take('data: {"choices": [{"del')
    assert assembly.response()["broken_chunk"] == '{"choices": [{"del'


def test_a_connection_that_idled_is_opened_again() -> None:
    """Servers close idle connections; the next question must not take that for a dead engine."""
    calls: list[str] = []

    def handler(request: httpx2.Request) -> httpx2.Response:
        calls.append(request.url.path)
        if len(calls) == 1:
            raise httpx2.RemoteProtocolError("Server disconnected without sending a response.")
        return httpx2.Response(200, content=json.dumps({"choices": []}).encode())

    with Endpoint("http://scripted", "m", transport=httpx2.MockTransport(handler)) as endpoint:
        assert endpoint.chat([]).response == {"choices": []}
    assert len(calls) == 2


def test_a_dead_server_is_said_so() -> None:
    def handler(request: httpx2.Request) -> httpx2.Response:
        raise httpx2.RemoteProtocolError("Server disconnected without sending a response.")

    with Endpoint("http://scripted", "m", transport=httpx2.MockTransport(handler)) as endpoint:
        for put in (endpoint.chat, endpoint.stream):
            with pytest.raises(EndpointError, match="cannot be reached"):
                put([])
