"""The official SDKs, through nothing but the settings that `upright connect` prints."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest

from tests.conftest import Upright
from tests.engines.test_line import free_port

pytestmark = pytest.mark.engine

GREEDY = {"temperature": 0}  # the SDK of this day has no such parameter
QUESTION = [{"role": "user", "content": "What is the capital of France?"}]


@pytest.fixture
def settings(upright: Upright, llama_server: Path, tiny_model: Path) -> Iterator[Any]:
    """client name -> the settings that `connect` printed, of one running deployment."""
    path = f"{llama_server.parent}:{os.environ['PATH']}"
    started = upright("up", tiny_model, "--context", "1k", "--port", str(free_port()), PATH=path)
    assert started.returncode == 0, started.stderr

    def of(client: str) -> dict[str, Any]:
        printed = json.loads(upright("connect", "--client", client, "--json").stdout)
        printed["key"] = Path(printed["key_file"]).read_text().strip()
        return printed

    yield of
    assert upright("down").returncode == 0


def test_openai_and_anthropic_sdks(settings: Any, monkeypatch: pytest.MonkeyPatch):
    told = settings("openai")
    monkeypatch.setenv("OPENAI_API_KEY", told["key"])
    for name, value in told["environment"].items():
        monkeypatch.setenv(name, value)
    with openai.OpenAI(max_retries=0) as client:
        chat = client.chat.completions.create(model=told["model"], messages=QUESTION, temperature=0)
        assert chat.choices[0].message.content == "The capital of France is Paris."
        stream = client.chat.completions.create(model=told["model"], messages=QUESTION, temperature=0, stream=True)
        pieces = [chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices]
        assert len([piece for piece in pieces if piece]) > 3
        assert "".join(pieces) == "The capital of France is Paris."
    with openai.OpenAI(api_key="sk-wrong", max_retries=0) as stranger, pytest.raises(openai.AuthenticationError):
        stranger.chat.completions.create(model=told["model"], messages=QUESTION)

    told = settings("anthropic")
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", told["key"])
    for name, value in told["environment"].items():
        monkeypatch.setenv(name, value)
    with anthropic.Anthropic(max_retries=0) as claude:
        message = claude.messages.create(model=told["model"], messages=QUESTION, max_tokens=32, extra_body=GREEDY)
        assert [block.text for block in message.content if block.type == "text"] == ["The capital of France is Paris."]
        assert message.stop_reason == "end_turn"
    with (
        anthropic.Anthropic(auth_token="wrong", max_retries=0) as stranger,
        pytest.raises(anthropic.AuthenticationError),
    ):
        stranger.messages.create(model=told["model"], messages=QUESTION, max_tokens=8)


def test_the_curl_line_works_as_printed(settings: Any):
    import subprocess

    done = subprocess.run(["bash", "-c", settings("curl")["text"]], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["choices"][0]["message"]["content"] == "OK"


def test_an_unknown_client_is_named_with_the_known_ones(settings: Any, upright: Upright):
    done = upright("connect", "--client", "emacs")
    assert done.returncode == 2
    assert "no client named emacs" in done.stderr
    assert "claude-code" in done.stderr
