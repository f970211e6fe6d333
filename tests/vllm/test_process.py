"""vLLM as a process: up, ready by a real answer, ps, logs. Its end is in test_restart.py."""

from __future__ import annotations

from pathlib import Path

import httpx2

from tests.vllm.conftest import CONTEXT, Standing


def test_ready_is_a_real_answer(standing: Standing):
    (listed,) = standing.json("ps")
    assert (listed["name"], listed["state"], listed["engine"]) == (standing.name, "ready", "vllm")
    assert listed["engine_version"].endswith("+cpu")
    assert listed["ready_seconds"] > 1
    served = httpx2.get(f"{standing.base_url}/v1/models", headers=standing.headers).json()["data"][0]
    assert served["max_model_len"] == CONTEXT
    question = {"model": served["id"], "messages": [{"role": "user", "content": "Say OK."}], "max_tokens": 4}
    reply = httpx2.post(
        f"{standing.base_url}/v1/chat/completions", json=question, headers=standing.headers, timeout=60
    ).json()
    assert reply["usage"]["completion_tokens"] > 0


def test_it_wants_the_key_and_tells_nobody(standing: Standing):
    assert httpx2.get(f"{standing.base_url}/v1/models").status_code == 401
    log = standing.upright("logs", standing.name).stdout
    assert "KV cache size" in log
    assert standing.key not in log
    listings = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()]
    assert any(b"serve" in words and str(standing.model).encode() in words for words in listings)
    assert not any(standing.key.encode() in words for words in listings)
