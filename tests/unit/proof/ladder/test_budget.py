"""A budget binds: it is divided before the climb, and ends it whatever the peer does."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

import pytest

from tests.hostile_server import hostile
from tests.scripted.engine import ScriptedEngine
from upright.base.errors import EndpointError
from upright.facts.records.evidence import Evidence
from upright.proof.ladder.climbing import prove_server
from upright.proof.ladder.ladder import Listener, climb, planned_schedule, prove
from upright.proof.ladder.prompts import prompt_set
from upright.proof.ladder.rung import ProofOptions, ProofTarget, SoakOptions
from upright.proof.ladder.servers import server_endpoint
from upright.serving.endpoint.client import Endpoint

pytestmark = pytest.mark.timeout(60)


def climbed(engine: ScriptedEngine, budget: float, to: str) -> tuple[Evidence, float]:
    began = time.monotonic()
    with engine.serving() as url, Endpoint(url, engine.model) as endpoint:
        target = ProofTarget("slow", "server:slow", engine.context_tokens)
        evidence = prove(target, endpoint, engine.prompts, to=to, budget_seconds=budget)
    return evidence, time.monotonic() - began


@pytest.mark.parametrize("delay", [0.5, 30.0], ids=["slow", "never"])
def test_a_budget_ends_a_climb(delay: float) -> None:
    """Before, a peer that says nothing was waited for as long as it took: two minutes a question."""
    evidence, took = climbed(ScriptedEngine(prompt_set("tiny"), delay_seconds=delay), 3.0, "tools")
    assert took < 1.1 * 3.0 + 5
    assert [item for item in evidence.observations if item.verdict == "failed"] == []
    assert evidence.ended is not None
    assert evidence.ended.startswith("the budget left out ")


def test_the_soak_that_was_asked_for_gets_its_time_first() -> None:
    """Before, the rungs before it took the whole of it, and the soak was left out."""
    options = ProofOptions("soak", budget_seconds=360, prompts=prompt_set("tiny"), soak=SoakOptions(600))
    chosen = planned_schedule(options, (40.0, 20.0))
    running = [one for one in chosen if one.runs]
    assert sum(one.seconds or 0 for one in running if one.group.rung == "soak") == 180
    assert sum(one.seconds or 0 for one in running) <= 360
    assert [one.group.name for one in chosen if not one.runs], "at these rates not everything fits"


def test_a_climb_keeps_time_for_what_was_asked_by_its_length() -> None:
    said: list[str] = []
    engine = ScriptedEngine(prompt_set("tiny"), delay_seconds=0.2)
    with engine.serving() as url, Endpoint(url, engine.model) as endpoint:
        target = ProofTarget("slow", "server:slow", engine.context_tokens)
        options = ProofOptions("soak", budget_seconds=8, prompts=engine.prompts, soak=SoakOptions(60, restart=False))
        began = time.monotonic()
        evidence = climb(target, endpoint, options, Listener(tell=said.append))
    assert said[0] == "the budget leaves 4.0 s for the soak, not 1 min"
    assert evidence.of("soak")[0].verdict != "skipped", evidence.of("soak")[0].reason
    assert time.monotonic() - began < 1.1 * 8 + 5


@pytest.mark.parametrize(
    "behaviour", ["drip", "slow head", "half open", "comments", "continues forever", "huge numbers"]
)
def test_a_budget_holds_against_any_peer(behaviour: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before, each question of a server that sends a byte a second was waited for, those before the climb too."""
    monkeypatch.setenv("UPRIGHT_HOME", str(tmp_path))
    began = time.monotonic()
    with (
        hostile(behaviour) as url,
        contextlib.suppress(EndpointError),
        server_endpoint(url, "m", None, budget_seconds=1.0) as endpoint,
    ):
        prove_server(endpoint, ProofOptions("tools", budget_seconds=1.0), lambda words: None)
    assert time.monotonic() - began < 1.1 * 1.0 + 5
