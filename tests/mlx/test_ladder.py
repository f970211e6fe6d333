"""A real mlx_lm.server proved and measured."""

from __future__ import annotations

import pytest

from tests.mlx.conftest import Standing

pytestmark = pytest.mark.slow


def test_the_trained_model_passes_on_it(standing: Standing):
    seen = standing.json("prove", standing.name, "--to", "smoke", "--prompts", "tiny")["observations"]
    assert [item for item in seen if item["verdict"] == "failed"] == []
    assert {item["rung"] for item in seen if item["verdict"] == "passed"} >= {"boot", "smoke"}
    name = next(item for item in seen if item["probe"] == "served name")
    assert (name["verdict"], "what it could load" in name["reason"]) == ("skipped", True)


def test_requests_are_measured_together(standing: Standing):
    """A `seed` would be served alone, so none is sent; comments before the first token are no token."""
    words = ("--workload", "short", "--prompt-tokens", "64", "--output-tokens", "8", "--concurrency", "2")
    once = ("--repeats", "1", "--requests", "4", "--budget", "40s", "--no-self-test")
    (cell,) = standing.json("bench", standing.name, *words, *once)["cells"]
    assert cell["errors"] == {}
    assert cell["output_tokens"]["mean"] == 8
    assert cell["in_flight_peak"] == 2
    assert cell["ttft_seconds"]["mean"] > cell["tpot_seconds"]["mean"]
