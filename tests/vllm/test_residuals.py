"""The loop on the real vLLM: its pool to the token, and a second plan that uses what the first start measured."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest

from tests.vllm.conftest import CONTEXT, USERS, Standing
from upright.serving.endpoint.metrics import read_metrics

SETTING = ("--context", str(CONTEXT), "--users", str(USERS))


def ledger(plan: dict[str, Any], term: str) -> dict[str, Any]:
    return next(line for line in plan["plans"][0]["ledger"] if line["term"] == term)


def test_the_pool_is_what_the_engine_says_to_the_token_and_the_byte(standing: Standing):
    residuals = standing.json("residuals", standing.name)
    text = httpx2.get(f"{standing.base_url}/metrics", headers=standing.headers).text
    seen = read_metrics(text)
    pool = residuals["pool"]
    assert pool["measured_tokens"]["value"] == seen.kv_tokens == pool["predicted_tokens"]["value"]
    cache = next(line for line in residuals["lines"] if line["term"] == "kv_cache")
    assert cache["measured_bytes"]["value"] == seen.kv_bytes == cache["predicted_bytes"]["value"]
    log = standing.upright("residuals", standing.name, "--log", log_of(standing), "--json")
    assert f'"value": {seen.kv_tokens:.0f}' in log.stdout, "the log says the same"


def test_a_second_plan_uses_what_was_measured(standing: Standing):
    residuals = standing.json("residuals", standing.name)
    process = next(line for line in residuals["lines"] if line["term"] == "process")
    seen = process["measured_bytes"]["value"]
    assert seen > 2**28, "three Python processes with torch"
    first = standing.json("plan", standing.model, *SETTING, "--no-measured")
    second = standing.json("plan", standing.model, *SETTING)
    line = ledger(second, "process")
    assert f"measured on {standing.name}" not in ledger(first, "process")["why"]
    assert f"measured on {standing.name}" in line["why"]
    assert line["bytes"] == pytest.approx(seen, rel=1e-3)
    assert line["low_bytes"] <= seen <= line["high_bytes"]
    assert "process" in next(note["message"] for note in second["plans"][0]["notes"] if note["code"] == "measured")
    other = standing.json("plan", standing.model, *SETTING, "--engine", "vllm", "--engine-version", "0.31.0+cpu")
    assert "not-measured" in {note["code"] for note in other["plans"][0]["notes"]}


def log_of(standing: Standing) -> str:
    return str(standing.home / "deployments" / standing.name / "engine.log")
