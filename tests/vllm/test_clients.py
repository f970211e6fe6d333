"""The official SDKs on vLLM, through nothing but the settings that `upright connect` prints."""

from __future__ import annotations

import httpx2
import pytest

from tests.sdk_clients import QUESTION, environment_of, walk_anthropic, walk_openai
from tests.vllm.conftest import Standing

NAMED = {"type": "function", "function": {"name": "get_weather"}}
"""The catalogue knows no tool parser for a checkpoint of ours, and vLLM wants one for every other choice."""


def test_openai(standing: Standing, monkeypatch: pytest.MonkeyPatch):
    told = standing.json("connect", standing.name)
    environment_of(told, monkeypatch)
    assert walk_openai(told["model"], NAMED) > 0


def test_anthropic(standing: Standing, monkeypatch: pytest.MonkeyPatch):
    told = standing.json("connect", standing.name, "--client", "claude-code")
    environment_of(told, monkeypatch)
    assert walk_anthropic(told["model"], {"type": "tool", "name": "get_weather"}) > 0


def test_the_other_header_is_refused_which_is_why_the_token_is_set(standing: Standing):
    body = {"model": standing.json("connect")["model"], "messages": QUESTION, "max_tokens": 4}
    refused = httpx2.post(f"{standing.base_url}/v1/messages", json=body, headers={"x-api-key": standing.key})
    assert refused.status_code == 401
