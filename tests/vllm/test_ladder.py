"""The ladder on a real vLLM. Good weights behind a broken kernel, which do not stand, are in test_restart.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import TINY_FOLDER, Upright
from tests.ports import free_port
from tests.vllm.conftest import CONTEXT, Standing, answer

REFERENCE = TINY_FOLDER.parent / "reference.json"


def test_the_whole_ladder(standing: Standing) -> None:
    evidence = standing.json("prove", standing.name, "--to", "task")
    seen = evidence["observations"]
    assert [item for item in seen if item["verdict"] == "failed"] == []
    passed = {item["rung"] for item in seen if item["verdict"] == "passed"}
    assert {"arguments", "boot", "smoke", "tools", "context"} <= passed
    longest = max(item["measured"].get("prompt_tokens", 0) for item in seen if item["rung"] == "context")
    assert longest > 0.9 * CONTEXT, "the whole context was walked, as vLLM itself counts"
    full = [item for item in seen if item["check"] == "full cache"]
    assert all(item["measured"].get("cache_usage", 0) > 0.9 or item["verdict"] == "unsupported" for item in full)


@pytest.mark.slow
def test_another_engine_still_serves_the_same_model(standing: Standing) -> None:
    """Against what llama.cpp said of the same weights in float32, stored in the repository."""
    evidence = standing.json("prove", standing.name, "--reference", REFERENCE)
    sums = {item["check"]: item for item in evidence["observations"] if item["rung"] == "equivalence"}
    assert {sums[check]["verdict"] for check in ("divergence", "agreement", "flips")} == {"passed"}
    assert sums["divergence"]["measured"]["prompts"] >= 30
    assert 0 < sums["divergence"]["measured"]["divergence"] < 0.01


@pytest.mark.slow
def test_an_fp8_cache_is_tried_and_taken_back(vllm_box: Upright, tiny_checkpoint: Path) -> None:
    """Healthy, and dead on the first request: the step is taken back by itself, and the engine stands as before."""
    answer(vllm_box("up", tiny_checkpoint, "--context", "1k", "--port", str(free_port()), "--json"))
    evidence = answer(vllm_box("prove", "--to", "smoke", "--try=--kv-cache-dtype=fp8", "--json", timeout=600))
    (step,) = evidence["steps"]
    assert (step["setting"], step["outcome"]) == ("--kv-cache-dtype", "stepped back")
    assert step["reason"]
    assert answer(vllm_box("ps", "--json"))[0]["state"] == "ready"
