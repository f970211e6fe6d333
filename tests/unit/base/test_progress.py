"""Long work is watched: whatever is silent for long says how far it has come, by each way that people wait."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.scripted.engine import ScriptedEngine
from upright.app.pages.bench_page import bench_progress_bar
from upright.base import progress
from upright.base.progress import Pulse, pace
from upright.facts.store import DeploymentDir
from upright.proof.benchmark.bench import bench
from upright.proof.benchmark.endpoints import KnownEndpoint
from upright.proof.benchmark.load import LoadTarget
from upright.proof.benchmark.sweep import SweepRequest
from upright.proof.benchmark.workload import workload
from upright.proof.ladder.climbing import sentence_listener
from upright.proof.ladder.ladder import climb
from upright.proof.ladder.prompts import prompt_set
from upright.proof.ladder.rung import ProofOptions, ProofTarget
from upright.serving.endpoint.client import Endpoint

pytestmark = pytest.mark.timeout(60)


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test does not wait for five seconds."""
    monkeypatch.setattr(progress, "_FIRST_SILENCE_SECONDS", 0.3)


def test_what_is_silent_says_how_far_it_is_and_ever_more_rarely() -> None:
    said: list[str] = []
    tell = Pulse(said.append)
    with tell.watching():
        tell("loading")
        time.sleep(2.5)
    assert said[0] == "loading"
    assert 2 <= len(said[1:]) <= 3, "after 0.3, 0.9 and 2.1 s, and a little later on a busy machine"
    assert all(words.endswith(" so far: loading") for words in said[1:])


def test_what_speaks_by_itself_is_left_alone_and_so_is_what_is_over() -> None:
    said: list[str] = []
    tell = Pulse(said.append)
    with tell.watching(lambda: "still"):
        for _ in range(10):
            tell("a line")
            time.sleep(0.1)
    time.sleep(1)
    assert said == ["a line"] * 10


def test_the_innermost_step_is_told_of_and_then_the_outer_again() -> None:
    said: list[str] = []
    tell = Pulse(said.append)
    with tell.watching(lambda: "outer"):
        with tell.watching(lambda: "inner"):
            time.sleep(0.9)
        tell("the inner is done")
        time.sleep(0.9)
    assert said[0] == "inner"
    assert said[-1] == "outer"


@pytest.mark.parametrize(("done", "words"), [
    (0, "0 of 22 questions after 42 s"),
    (2, "2 of 22 questions after 42 s, 2.86 a minute, about 7 min left"),
    (21, "21 of 22 questions after 42 s, 30 a minute, about 2.0 s left"),
])  # fmt: skip
def test_a_pace_has_no_rate_before_one_is_done(done: int, words: str) -> None:
    assert pace(done, 22, 42.0, "questions") == words


@pytest.mark.parametrize(("to", "line"), [("smoke", "smoke: "), ("parallel", " answers")])
def test_a_slow_climb_counts_its_questions(to: str, line: str) -> None:
    """Before, a question of half a minute and a load of three hundred answers were silent."""
    engine, said = ScriptedEngine(prompt_set("tiny")), list[str]()
    engine.delay_seconds = 0.1 if to == "parallel" else 0.7
    with engine.serving() as url, Endpoint(url, engine.model) as endpoint:
        target = ProofTarget("slow", "server:slow", engine.context_tokens)
        options = ProofOptions(to, ("boot", to), engine.prompts, budget_seconds=12)
        climb(target, endpoint, options, sentence_listener(Pulse(said.append)))
    told = [words for words in said if " of " in words and " left" in words]
    assert any(line in words for words in told), said


def test_a_slow_cell_counts_its_requests(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "_LONGEST_SILENCE_SECONDS", 0.3)
    engine = ScriptedEngine(prompt_set("tiny"))
    engine.delay_seconds = 0.4
    row = workload("short").model_copy(update={"concurrency": (1,)})
    asked = SweepRequest(row, tuple(row.shapes())[:1], 1, budget_seconds=8)
    with engine.serving() as url, bench_progress_bar(asked) as watch:
        bench([KnownEndpoint(LoadTarget(url, engine.model), engine.model)], asked, DeploymentDir(tmp_path), watch)
    assert " requests after " in capfd.readouterr().err
