"""A trial on an engine whose tokens come by the clock: what pays is kept; what slows, damages or falls is not."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.ports import free_port
from upright.app.cli.prove import command as prove
from upright.base.errors import UsageError
from upright.engines.speculation import Candidate, parse_candidate
from upright.facts import catalog, store
from upright.facts.records.deployment import Deployment
from upright.facts.records.evidence import Evidence, Observation, Step
from upright.facts.records.recipe import Recipe, Setting
from upright.facts.records.speculation import Speculation
from upright.facts.store import DeploymentDir
from upright.proof.ladder import recipe_changes
from upright.proof.ladder.prompts import prompt_set
from upright.proof.ladder.recipe_changes import step_entry, undo_interrupted
from upright.proof.ladder.rungs.speculation import speculation_offers
from upright.proof.ladder.speculation_trial import Trial, automatic_candidates, shapes, speculate
from upright.proof.ladder.trial_request import trial_of
from upright.proof.ladder.trials import trials
from upright.serving.launch import launch, status, stop

PROMPTS = prompt_set("tiny")
ONE = PROMPTS.model_copy(update={"smoke": PROMPTS.smoke[:1], "dialogues": ()})
"""One question: what is the capital of France?"""


def recipe_of(engine: str, version: str, **fields: object) -> Recipe:
    plain = {
        "engine": engine, "engine_version": version, "runtime": "process", "program": engine, "arguments": (),
        "model_path": "model", "served_name": "scheduled", "host": "127.0.0.1", "port": 8000, "context_tokens": 1024,
        "users": 4, "health_path": "/health", "metrics_path": "/metrics",
    }  # fmt: skip
    return Recipe.model_validate({**plain, **fields})


def proved(verdict: str = "passed") -> Evidence:
    seen = Observation.model_validate(
        {"rung": "smoke", "check": "x", "verdict": verdict, "reason": "as told", "at": "", "seconds": 0,
         "request": {}, "response": None}
    )  # fmt: skip
    return Evidence(
        deployment="d", engine=None, engine_version=None, to_rung="smoke", observations=(seen,), prompts="p"
    )


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[DeploymentDir]:
    monkeypatch.setenv("UPRIGHT_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}:{ROOT / 'src'}")
    program = tmp_path / "llama-server"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m tests.scripted.speculating "$@"\n')
    program.chmod(0o755)
    port = free_port()
    arguments = (
        Setting(name="--port", value=str(port), reason=""),
        Setting(name="--ctx-size", value="4096", reason=""),
    )
    recipe = recipe_of("llama.cpp", "b11669", program=str(program), arguments=arguments, port=port)
    made = store.create("scripted")
    made.write(catalog.box_record("8x-rtx-pro-6000-server-dual-socket").model_copy(update={"engines": ()}))
    launch(recipe, made)
    yield made
    stop(made)


def tried(
    directory: DeploymentDir,
    *ways: str,
    cells: tuple[tuple[int, int], ...] = ((32, 1),),
    said: list[str] | None = None,
    verdict: str = "passed",
) -> Speculation:
    trial = Trial(tuple(map(parse_candidate, ways)), cells=cells, output_tokens=10)
    tell = said.append if said is not None else lambda words: None
    record, _, _ = speculate(directory, trial, ONE, proved(), lambda: proved(verdict), tell)
    return record


def running(directory: DeploymentDir) -> tuple[str, str]:
    return status(directory).state, " ".join(directory.read(Recipe).argv)


@pytest.mark.timing
def test_what_pays_is_kept_and_what_slows_or_falls_is_not(directory: DeploymentDir, tmp_path: Path) -> None:
    (tmp_path / "slow.gguf").touch()
    ways = (f"draft={tmp_path / 'slow.gguf'}", "eagle3=nowhere.gguf", "ngram")
    record = tried(directory, *ways, cells=((32, 1), (32, 2)))
    slow, dead, quick = record.tried
    assert [each.outcome for each in record.tried] == ["stepped back", "fell", "kept"]
    assert {cell.verdict for cell in slow.cells} == {"loses"}
    assert {cell.verdict for cell in quick.cells} == {"wins"}
    assert {cell.verdict for cell in dead.cells} == {"not measurable"}
    for cell in quick.cells:
        assert cell.output is not None
        assert cell.output.low is not None
        assert cell.pairs == 4
        assert 1.2 < cell.output.low < cell.output.factor < 3.1
        assert cell.acceptance == pytest.approx(0.7, abs=0.02)
    assert slow.reason.startswith("it loses in 2 of 2 cells (-")
    assert "acceptance collapsed: 1.0 %" in slow.notes[0]
    assert "the caches take 4.00 MiB, 3.00 MiB without it (+33.3 %)" in slow.notes[1]
    assert "does not start" in dead.reason
    assert quick.acceptance_at == pytest.approx((0.9, 0.8, 0.7, 0.6, 0.5), abs=0.02)
    assert (quick.answers, quick.answers_alike, quick.damage) == (2, 2, ())
    assert record.recommendation.startswith("For 4 users with 1,024 tokens: keep ngram, 5 guesses; it wins in 2 of 2")
    assert "ngram-simple" in running(directory)[1]
    assert (running(directory)[0], record.runs) == ("ready", directory.read(Recipe).reference)
    outcomes = [(step.after, step.outcome) for step in directory.entries(Step) if step.outcome != "trying"]
    assert [outcome for _, outcome in outcomes] == ["stepped back", "stepped back", "kept"]
    assert outcomes[-1][0] == "ngram, 5 guesses"
    assert directory.read(Speculation) == record
    assert trials(directory) == (record,)


@pytest.mark.slow
@pytest.mark.timing
def test_what_pays_may_only_be_judged(directory: DeploymentDir) -> None:
    before = running(directory)
    trial = Trial((parse_candidate("ngram"),), cells=((32, 1),), output_tokens=10, keep=False)
    record, _, evidence = speculate(directory, trial, ONE, proved(), proved, lambda words: None)
    assert (record.tried[0].outcome, record.tried[0].reason) == ("stepped back", "it pays, and was only to be judged")
    assert record.recommendation.startswith("For 4 users with 1,024 tokens: ngram, 5 guesses pays; it wins in 1 of 1")
    assert (running(directory), evidence) == (before, None)


def test_what_damages_is_taken_back_before_it_is_measured(directory: DeploymentDir, tmp_path: Path) -> None:
    (tmp_path / "damaging.gguf").touch()
    before = running(directory)
    said: list[str] = []
    record = tried(directory, f"draft={tmp_path / 'damaging.gguf'}", said=said)
    (only,) = record.tried
    assert only.outcome == "damages"
    assert "does not say 'Paris'" in only.damage[0]
    assert {cell.verdict for cell in only.cells} == {"not measurable"}
    assert "leave speculation off" in record.recommendation
    assert running(directory) == before
    assert not any(words.startswith("  b ") for words in said), "nothing was measured with it"
    assert [step.outcome for step in directory.entries(Step)] == ["trying", "stepped back"]


@pytest.mark.slow
@pytest.mark.timing
def test_what_pays_and_does_not_stand_is_taken_back(directory: DeploymentDir) -> None:
    """The proof comes after the measurement, with everything that was asked for."""
    before = running(directory)
    record = tried(directory, "ngram", verdict="failed")
    assert record.tried[0].outcome == "damages"
    assert record.tried[0].reason == "it pays, and does not stand: smoke x: as told"
    assert "leave speculation off" in record.recommendation
    assert running(directory) == before
    assert [step.outcome for step in directory.entries(Step)][-1] == "stepped back"


def test_a_trial_that_was_killed_is_undone(directory: DeploymentDir) -> None:
    """As a kill leaves it: the journal says trying, and the candidate runs."""
    from upright.engines.facets.flags import Accepted
    from upright.engines.speculation import with_speculation
    from upright.serving.launch import restart

    good = directory.read(Recipe)
    wanted = with_speculation(
        good, parse_candidate("ngram"), Accepted(frozenset({"--spec-type", "--spec-draft-n-max"}), None)
    )
    directory.append(step_entry("speculation", None, "ngram", good, wanted, "trying", "to be measured"))
    restart(directory, wanted)
    back = undo_interrupted(directory, lambda words: None)
    assert back is not None
    assert back.outcome == "stepped back"
    assert directory.read(Recipe).argv == good.argv
    assert status(directory).state == "ready"


@pytest.mark.slow
def test_a_trial_that_was_killed_between_two_engines_is_undone(directory: DeploymentDir) -> None:
    """As a kill leaves it after the one was stopped, and before the other's recipe was written."""
    good = directory.read(Recipe)
    wanted = good.model_copy(update={"users": 3})
    directory.append(step_entry("--parallel", "4", "3", good, wanted, "trying", "as was asked for"))
    stop(directory)
    undo_interrupted(directory, lambda words: None)
    assert running(directory) == ("ready", " ".join(good.argv))


def test_a_trial_that_was_killed_while_the_first_engine_ends_is_undone(directory: DeploymentDir) -> None:
    """It takes its time to end, and is called ready until it has: nothing may be asked of it any more."""
    good = directory.read(Recipe)
    wanted = good.model_copy(update={"users": 3})
    directory.append(step_entry("--parallel", "4", "3", good, wanted, "trying", "as was asked for"))
    ending = directory.read(Deployment)
    assert ending.process is not None
    assert ending.supervisor is not None
    os.kill(ending.process.pid, signal.SIGSTOP)
    os.kill(ending.supervisor.pid, signal.SIGTERM)
    threading.Timer(1, os.kill, (ending.process.pid, signal.SIGCONT)).start()
    assert status(directory).state == "ready"
    undo_interrupted(directory, lambda words: None)
    assert running(directory) == ("ready", " ".join(good.argv))
    now = directory.read(Deployment)
    assert now.process is not None
    assert now.process.pid != ending.process.pid


def test_a_trial_that_was_killed_is_undone_by_a_newer_upright_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records of an older schema are read as others, with other digests; the journal knows them by the old ones."""
    old = (ROOT / "tests/unit/facts/records/fixtures/recipe-1.json").read_bytes()
    made, good = DeploymentDir(tmp_path), recipe_of("llama.cpp", "b11669")
    (tmp_path / "recipe.json").write_bytes(old)
    (tmp_path / "recipe-1.json").write_text(good.to_json())
    trying = step_entry("speculation", None, "ngram", good, made.read(Recipe), "trying", "to be measured")
    written = f"recipe:{json.loads(old)['digest']}"
    assert written != trying.recipe_after
    made.append(trying.model_copy(update={"recipe_after": written}))
    restarted: list[Recipe] = []
    monkeypatch.setattr(recipe_changes, "restart", lambda directory, recipe, **_: restarted.append(recipe))
    undo_interrupted(made, lambda words: None)
    assert [recipe.reference for recipe in restarted] == [good.reference]


@pytest.mark.slow
def test_an_interrupted_trial_ends_on_the_last_good_recipe(directory: DeploymentDir) -> None:
    before = running(directory)

    def tell(words: str) -> None:
        if words.startswith("  b "):
            raise KeyboardInterrupt

    trial = Trial((parse_candidate("ngram"),), cells=((32, 1),), output_tokens=10)
    with pytest.raises(KeyboardInterrupt):
        speculate(directory, trial, ONE, proved(), proved, tell)
    assert running(directory) == before


def test_what_runs_already_is_no_candidate(directory: DeploymentDir) -> None:
    with pytest.raises(UsageError, match="runs with no speculation already"):
        tried(directory, "none")


def test_offers_are_what_this_version_takes() -> None:
    recipe = recipe_of("llama.cpp", "b11669")
    assert [offer.words for offer in speculation_offers(recipe)] == ["ngram", "draft=PATH", "eagle3=PATH"]
    assert automatic_candidates(recipe) == (Candidate("ngram", guesses=5),)
    kimi = recipe_of("vllm", "0.32.0", served_name="Kimi-K2.6")
    assert "eagle3=lightseekorg/kimi-k2.6-eagle3-mla" in [offer.words for offer in speculation_offers(kimi)]


def test_cells_follow_the_goal() -> None:
    recipe = recipe_of("llama.cpp", "b11669", context_tokens=65_536)
    found = [(shape.prompt_tokens, shape.concurrency) for shape in shapes(Trial(()), recipe)]
    assert found == [(512, 1), (512, 4), (8192, 1), (8192, 4)]
    short = recipe.model_copy(update={"context_tokens": 512, "users": 1})
    assert [(shape.prompt_tokens, shape.concurrency) for shape in shapes(Trial(()), short)] == [(192, 1)]


@pytest.mark.parametrize("tokens", [0, 1, 1024, 5000])
def test_answers_that_say_nothing_or_do_not_fit_are_refused(
    tokens: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UPRIGHT_HOME", str(tmp_path))
    made = store.create("named")
    made.write(recipe_of("llama.cpp", "b11669"))
    with pytest.raises(UsageError, match="answers of"):
        trial_of(made, ("ngram",), (), 4, tokens, True, None)
    trial = trial_of(made, ("ngram",), (), 4, None, True, None)
    assert trial is not None
    assert f"tokens of an answer.  [default: {trial.output_tokens}]" in str(
        [each.to_info_dict() for each in prove.params]
    )
