"""A real mlx_lm.server is up when it has answered, and clients are given the one name that unloads nothing."""

from __future__ import annotations

import httpx2

from tests.mlx.conftest import Standing


def test_it_stands_and_a_client_is_answered(standing: Standing):
    settings = standing.json("connect", standing.name, "--client", "openai")
    assert settings["works"]
    assert settings["model"] == "default_model"
    question = [{"role": "user", "content": "What is the capital of France?"}]
    said = httpx2.post(
        f"{standing.base_url}/v1/chat/completions",
        json={"model": settings["model"], "messages": question, "temperature": 0},
        timeout=60,
        trust_env=False,
    ).json()["choices"][0]["message"]
    assert (said["content"], said["reasoning"]) == ("The capital of France is Paris.", "This is a simple question.")
