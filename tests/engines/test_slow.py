"""A slow box is no broken one: time limits follow the tokens that a real llama-server reads and writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.engines.test_ladder import llama
from upright.facts.records.evidence import Evidence
from upright.proof.ladder import observing
from upright.proof.ladder.ladder import prove
from upright.proof.ladder.prompts import prompt_set
from upright.proof.ladder.servers import server_target
from upright.serving.endpoint.client import Endpoint

pytestmark = pytest.mark.engine
_SENTENCE = "Tell a long story about a lighthouse."


def climbed(url: str, *, watched: bool) -> Evidence:
    """One question whose answer takes a second or more; nothing is known of the rates before it."""
    real = prompt_set("real")
    story = real.smoke[0].model_copy(update={"ask": _SENTENCE, "expect": "a", "max_tokens": 200, "modes": ("instant",)})
    with Endpoint(url, "tiny-kimi", watched=watched) as endpoint:
        prompts = real.model_copy(update={"smoke": (story,)})
        return prove(server_target(endpoint), endpoint, prompts, to="smoke", rungs=("smoke",))


def test_tokens_that_move_are_waited_for(llama_server: Path, smollm2: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before, a box that takes longer for an answer than the time limit was a broken one. Two minutes are half of what
    the answer takes here."""
    with llama(llama_server, smollm2, context=512) as url:
        limit = min(climbed(url, watched=True).observations[0].seconds for _ in range(3)) / 2  # the first reads weights
        monkeypatch.setattr(observing, "_LEAST_TIMEOUT_SECONDS", limit)
        blind, seeing = climbed(url, watched=False), climbed(url, watched=True)
    assert [item.verdict for item in blind.observations] == ["failed"]
    assert "did not answer in time" in blind.observations[0].reason
    assert [item.verdict for item in seeing.observations] == ["passed"], seeing.observations[0].reason
    assert seeing.observations[0].seconds > limit
