"""The official SDKs, told nothing but what `upright connect` printed: chat, stream, tools, counting, cached tokens."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import anthropic
import httpx2
import openai
import pytest

from upright.facts.records.deployment import Deployment
from upright.facts.store import DeploymentDir
from upright.serving.endpoint.client import Endpoint
from upright.serving.endpoint.metrics import Metrics, read_metrics

GREEDY = {"temperature": 0}  # the SDK of this day has no such parameter
QUESTION = [{"role": "user", "content": "What is the capital of France?"}]
WEATHER = [{"role": "user", "content": "What is the weather in Paris?"}]
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
LONG = [{"role": "user", "content": "What is the capital of France? " * 60}]


def environment_of(told: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """The variables as the printed text sets them."""
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    key = Path(told["key_file"]).read_text().strip()
    for name, value in told["environment"].items():
        monkeypatch.setenv(name, value)
    for name in told["key_variables"]:
        monkeypatch.setenv(name, key)


def walk_openai(model: str, tool_choice: Any) -> int:
    """Everything that a client does; the cached tokens of the second turn."""
    with openai.OpenAI(max_retries=0, timeout=120) as client:
        create = client.chat.completions.create
        chat = create(model=model, messages=QUESTION, max_tokens=32, **GREEDY)
        assert chat.choices[0].message.content
        assert chat.usage is not None
        assert chat.usage.completion_tokens > 0
        stream = create(model=model, messages=QUESTION, max_tokens=32, stream=True, **GREEDY)
        pieces = [chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices]
        assert len([piece for piece in pieces if piece]) > 3
        assert "".join(pieces) == chat.choices[0].message.content
        tool = {"type": "function", "function": {"name": "get_weather", "parameters": CITY}}
        called = create(
            model=model, messages=WEATHER, tools=[tool], tool_choice=tool_choice, max_tokens=64, **GREEDY
        ).choices[0]
        (call,) = called.message.tool_calls or ()
        assert call.function.name == "get_weather"
        assert set(json.loads(call.function.arguments)) == {"city"}
        first = create(model=model, messages=LONG, max_tokens=16, **GREEDY)
        said = {"role": "assistant", "content": first.choices[0].message.content or ""}
        second = create(model=model, messages=[*LONG, said, *QUESTION], max_tokens=16, **GREEDY)
    with openai.OpenAI(api_key="sk-wrong", max_retries=0) as stranger, pytest.raises(openai.AuthenticationError):
        stranger.chat.completions.create(model=model, messages=QUESTION)
    assert second.usage is not None
    details = second.usage.prompt_tokens_details
    assert details is not None
    return details.cached_tokens or 0


def walk_anthropic(model: str, tool_choice: Any) -> int:
    """The same by messages; the cached tokens of the second turn."""
    with anthropic.Anthropic(max_retries=0, timeout=120) as client:
        create = client.messages.create
        message = create(model=model, messages=QUESTION, max_tokens=32, extra_body=GREEDY)
        (text,) = [block.text for block in message.content if block.type == "text"]
        with client.messages.stream(model=model, messages=QUESTION, max_tokens=32, extra_body=GREEDY) as stream:
            events = [event.type for event in stream]
            final = stream.get_final_message()
        assert (events[0], events[-1]) == ("message_start", "message_stop")
        assert events.count("content_block_start") == events.count("content_block_stop") > 0
        assert "".join(block.text for block in final.content if block.type == "text") == text
        assert final.stop_reason == message.stop_reason
        tool = {"name": "get_weather", "input_schema": CITY}
        called = create(
            model=model, messages=WEATHER, tools=[tool], tool_choice=tool_choice, max_tokens=64, extra_body=GREEDY
        )
        (use,) = [block for block in called.content if block.type == "tool_use"]
        assert called.stop_reason == "tool_use"
        assert (use.name, set(use.input)) == ("get_weather", {"city"})
        counted = client.messages.count_tokens(model=model, messages=QUESTION).input_tokens
        assert 3 < counted < 100
        first = create(model=model, messages=LONG, max_tokens=16, extra_body=GREEDY)
        said = {"role": "assistant", "content": [block.model_dump() for block in first.content]}
        second = create(model=model, messages=[*LONG, said, *QUESTION], max_tokens=16, extra_body=GREEDY)
    with (
        anthropic.Anthropic(auth_token="wrong", max_retries=0) as stranger,
        pytest.raises(anthropic.AuthenticationError),
    ):
        stranger.messages.create(model=model, messages=QUESTION, max_tokens=8)
    return second.usage.cache_read_input_tokens or 0


def after_cancelling(directory: DeploymentDir, streams: int, at_once: int) -> tuple[Metrics, Metrics]:
    """The engine's own metrics before and after so many streams were left after their first piece."""
    deployment = directory.read(Deployment)
    headers = {"Authorization": f"Bearer {directory.key()}"}
    asked = {"model": deployment.served_name, "messages": LONG, "max_tokens": 1000, "stream": True, "ignore_eos": True}

    def leave(_: int) -> None:
        with (
            httpx2.Client(headers=headers, timeout=120, trust_env=False) as client,
            client.stream("POST", f"{deployment.base_url}/v1/chat/completions", json=asked) as response,
        ):
            next(line for line in response.iter_lines() if line.startswith("data:"))

    with Endpoint(deployment.base_url, deployment.served_name, key=directory.key()) as endpoint:
        before = read_metrics(endpoint.text("/metrics"))
        with ThreadPoolExecutor(at_once) as pool:
            list(pool.map(leave, range(streams)))
        deadline = time.monotonic() + 20
        while True:
            after = read_metrics(endpoint.text("/metrics"))
            if not (after.running or after.waiting) or time.monotonic() > deadline:
                return before, after
            time.sleep(0.2)
