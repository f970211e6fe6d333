"""The official SDKs on vLLM, through nothing but the settings that `upright connect` prints."""

from __future__ import annotations

import httpx2
import pytest

from tests.conformance import conforms, found_today
from tests.sdk_clients import (
    QUESTION,
    after_cancelling,
    environment_of,
    walk_anthropic,
    walk_openai,
)
from tests.vllm.conftest import Standing
from upright.facts.store import DeploymentDir


@pytest.mark.slow
def test_openai(standing: Standing, monkeypatch: pytest.MonkeyPatch):
    told = standing.json("connect", standing.name)
    environment_of(told, monkeypatch)
    walk_openai(told["model"], "auto")  # the CPU build says how many tokens were cached, and says 0


@pytest.mark.slow
def test_anthropic(standing: Standing, monkeypatch: pytest.MonkeyPatch):
    told = standing.json("connect", standing.name, "--client", "anthropic")
    environment_of(told, monkeypatch)
    walk_anthropic(told["model"], {"type": "auto"})


def test_the_other_header_is_refused_which_is_why_the_token_is_set(standing: Standing):
    body = {"model": standing.json("connect")["model"], "messages": QUESTION, "max_tokens": 4}
    refused = httpx2.post(f"{standing.base_url}/v1/messages", json=body, headers={"x-api-key": standing.key})
    assert refused.status_code == 401


def test_the_protocols_are_as_recorded_and_streams_that_are_left_free_their_slots(standing: Standing):
    directory = DeploymentDir(standing.home / "deployments" / standing.name)
    conforms(found_today(standing.name, standing.upright))
    _, after = after_cancelling(directory, 100, 4)
    assert (after.running, after.waiting) == (0, 0)
