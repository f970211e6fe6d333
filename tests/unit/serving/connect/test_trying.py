"""`connect` tries a client's own first request: endpoint, tools, size; and says what the client would meet."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from tests.unit.serving.connect.test_connect import KEY_FILE, deployment
from upright.app.pages.client_page import trial_sentences
from upright.base.errors import EndpointError
from upright.serving.connect import CLIENTS, connect
from upright.serving.connect.client_trial import try_settings
from upright.serving.connect.first_requests import first_request, first_requests, request_body

# vLLM 0.32.0 vllm/entrypoints/openai: what a request with tools gets from a server that was started without a parser
NO_PARSER = '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'
PER_TOKEN = 4


class Endpoints:
    """Answers of an engine with so much context, with or without a parser for tools; and what it was asked."""

    def __init__(self, context_tokens: int, *, parser: bool = True) -> None:
        self.context_tokens, self.parser = context_tokens, parser
        self.asked: list[tuple[str, dict[str, Any]]] = []

    def answer(self, path: str, body: dict[str, Any]) -> tuple[int, str]:
        self.asked.append((path, body))
        tokens = len(json.dumps(body)) // PER_TOKEN
        if body.get("tools") and not self.parser:
            return 400, json.dumps({"error": {"message": NO_PARSER, "code": 400}})
        if tokens > self.context_tokens:
            words = f"request ({tokens} tokens) exceeds the available context size ({self.context_tokens} tokens)"
            return 400, json.dumps({"error": {"message": words, "code": 400}})
        return 200, _STREAMS[path](tokens)


def _chat(tokens: int) -> str:
    def chunk(delta: dict[str, str], finish: str | None, **more: Any) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return {"id": "x", "object": "chat.completion.chunk", "model": "m", "choices": [choice], **more}

    usage = {"prompt_tokens": tokens, "completion_tokens": 1, "total_tokens": tokens + 1}
    last = {"id": "x", "object": "chat.completion.chunk", "model": "m", "choices": [], "usage": usage}
    chunks = [chunk({"role": "assistant", "content": "OK"}, None), chunk({}, "stop"), last]
    return "".join(f"data: {json.dumps(each)}\n\n" for each in chunks) + "data: [DONE]\n\n"


def _messages(tokens: int) -> str:
    message = {"id": "x", "type": "message", "role": "assistant", "model": "m", "content": [], "stop_reason": None}
    usage = {"input_tokens": tokens, "output_tokens": 0}
    block = {"type": "text", "text": ""}
    ended = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 1}}
    events = [
        {"type": "message_start", "message": {**message, "usage": usage}},
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "OK"}},
        {"type": "content_block_stop", "index": 0},
        ended,
        {"type": "message_stop"},
    ]
    return "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)


def _responses(tokens: int) -> str:
    usage = {"input_tokens": tokens, "output_tokens": 1, "total_tokens": tokens + 1}
    event = {"type": "response.completed", "response": {"status": "completed", "output": [], "usage": usage}}
    return f"event: response.completed\ndata: {json.dumps(event)}\n\n"


_STREAMS = {"/v1/chat/completions": _chat, "/v1/messages": _messages, "/v1/responses": _responses}


@contextmanager
def serving(endpoints: Endpoints) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._send(200, json.dumps({"object": "list", "data": [{"id": "Kimi-K2.6", "object": "model"}]}), "json")

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            status, text = endpoints.answer(self.path, body)
            self._send(status, text, "json" if status != 200 else "event-stream")

        def _send(self, status: int, text: str, kind: str) -> None:
            content = text.encode()
            self.send_response(status)
            self.send_header("Content-Type", "text/event-stream" if kind == "event-stream" else "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: Any) -> None:
            """Silent."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def tried(client: str, endpoints: Endpoints, variant: str | None = None) -> Any:
    with serving(endpoints) as address:
        running = deployment(endpoints.context_tokens).model_copy(update={"base_url": address})
        return try_settings(connect(running, KEY_FILE, client), "sk-x", variant=variant)


@pytest.mark.parametrize("client", CLIENTS)
def test_each_client_is_tried_at_its_own_endpoint_with_its_own_size_and_tools(client: str) -> None:
    engine = Endpoints(262_144)
    trial = tried(client, engine)
    row = first_request(client)
    ((path, body),) = engine.asked
    assert trial.works
    assert path == row.path
    assert len(body.get("tools", ())) == row.tools
    assert body["stream"] is True
    if row.characters and row.characters > 1000:
        assert len(json.dumps(body)) == pytest.approx(row.characters, rel=0.05)
        assert trial.prompt_tokens == len(json.dumps(body)) // PER_TOKEN
        assert f"the first of {client}" in next(trial_sentences("kimi", client, trial))


def test_without_a_tool_parser_claude_code_gets_a_400_and_is_told_so() -> None:
    trial = tried("claude-code", Endpoints(262_144, parser=False))
    assert not trial.works
    told = "\n".join(trial_sentences("kimi", "claude-code", trial))
    assert "claude-code will not work with kimi" in told
    assert "HTTP 400" in told
    assert "12 tools" in told
    assert "--tool-call-parser" in told
    assert "try: start the engine with a tool-call parser" in told
    assert tried("aider", Endpoints(262_144, parser=False)).works, "it sends no tools"


@pytest.mark.parametrize("context", [2_048, 4_096, 8_192])
def test_at_a_small_context_nothing_large_is_green(context: int) -> None:
    engine = Endpoints(context)
    trial = tried("claude-code", engine)
    assert not trial.works
    assert not engine.asked, "what cannot fit is not sent"
    told = "\n".join(trial_sentences("kimi", "claude-code", trial))
    assert "its first prompt has about 11,457 tokens" in told
    assert "upright up MODEL --context 16k" in told
    assert "claude --bare" in told
    assert not tried("codex", Endpoints(context)).works


def test_a_prompt_that_the_engine_counts_longer_is_not_green_either() -> None:
    trial = tried("claude-code", Endpoints(12_288))
    assert not trial.works
    assert trial.prompt_tokens is not None
    assert f"{trial.prompt_tokens:,} tokens" in trial.why[0]
    assert tried("claude-code", Endpoints(16_384)).works


def test_a_variant_is_tried_with_its_own_size() -> None:
    trial = tried("claude-code", Endpoints(4_096), "--bare")
    assert trial.works
    assert trial.variant == "--bare"


def test_a_wrong_key_or_another_model_is_an_error_and_no_verdict() -> None:
    class Refusing(Endpoints):
        def answer(self, path: str, body: dict[str, Any]) -> tuple[int, str]:
            return 401, "{}"

    with pytest.raises(EndpointError, match="401"):
        tried("openai", Refusing(65_536))


def test_every_client_has_a_row_and_what_was_measured_says_how() -> None:
    assert {row.client for row in first_requests()} == set(CLIENTS)
    for row in first_requests():
        assert (row.characters is None) == (row.measured is None), row.client
        assert row.characters is None or row.characters > row.tool_characters
        assert request_body(row, "m")["model"] == "m"
