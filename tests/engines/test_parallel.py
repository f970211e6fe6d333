"""The rung `parallel` on a real llama-server: never an alarm of a sound one; what a proxy mixes up is found."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.engines.test_ladder import failures, llama
from tests.scripted.crowded import MIXINGS, Mixer, Mixing, mixing_proxy
from upright.facts.records.evidence import Evidence
from upright.proof.ladder.ladder import prove
from upright.proof.ladder.prompts import prompt_set
from upright.proof.ladder.servers import server_target
from upright.serving.endpoint.client import Endpoint

pytestmark = pytest.mark.engine


def climbed(url: str) -> Evidence:
    with Endpoint(url, "tiny-kimi") as endpoint:
        return prove(server_target(endpoint), endpoint, prompt_set("tiny"), rungs=("boot", "parallel"))


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("slots", [8, 32])
def test_a_sound_engine_is_never_alarmed_of(slots: int, llama_server: Path, tiny_model: Path) -> None:
    with llama(llama_server, tiny_model, context=2048, slots=slots) as url:
        for _ in range(5):
            evidence = climbed(url)
            assert failures(evidence) == []
            seen = {item.probe: item for item in evidence.observations if item.rung == "parallel"}
            assert list(seen)[-3:] == [f"concurrency {slots}", "full cache", "alone again"]
            assert seen["full cache"].measured["cache_usage"] > 0.9, seen["full cache"].reason
            assert seen["alone"].measured["must_be_equal"] >= 12, seen["alone"].reason


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "mixing", [mixing if mixing == "cross-talk" else pytest.param(mixing, marks=pytest.mark.slow) for mixing in MIXINGS]
)
def test_requests_that_are_mixed_up_are_found(mixing: Mixing, llama_server: Path, tiny_model: Path) -> None:
    """Right alone, HTTP 200 throughout, and wrong among others."""
    mixer = Mixer(mixing, rate=0.3)
    with llama(llama_server, tiny_model, context=2048, slots=4) as url, mixing_proxy(url, mixer) as mixed:
        evidence = climbed(mixed)
    alone, *_ = [item for item in evidence.observations if item.rung == "parallel"]
    assert alone.verdict == "passed", alone.reason
    assert mixer.mixed
    ((rung, check, reason),) = failures(evidence)
    assert (rung, check) == ("parallel", "load")
    assert "is the smallest that shows it" in reason
    assert mixing != "stale prefix" or "a stale prefix" in reason
