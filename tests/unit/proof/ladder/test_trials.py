"""A recipe on trial: whatever happens, the deployment's own comes back; after a kill at the next look."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.golden.deployments import recipe
from upright.base.errors import LaunchError
from upright.facts.records.evidence import Evidence, Observation
from upright.facts.records.recipe import Recipe
from upright.facts.store import DeploymentDir
from upright.proof.ladder import climbing, recipe_changes
from upright.proof.ladder.estimating import AFTER_LEFT_OUT, unaffordable
from upright.proof.ladder.journaled import unfinished_step
from upright.proof.ladder.prompts import prompt_set
from upright.proof.ladder.recipe_changes import (
    TrialChange,
    context_change,
    running_trial_recipe,
    step,
    undo_interrupted,
)
from upright.proof.ladder.rung import ProofOptions

OWN = recipe("kimi-k26-vllm")
OTHER = OWN.model_copy(update={"context_tokens": 1_024})


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DeploymentDir:
    """A restart keeps the recipe that it replaces, as the real one does."""
    directory = DeploymentDir(tmp_path)

    def restart(directory: DeploymentDir, wanted: Recipe, *, in_trial: bool = True) -> None:
        (tmp_path / "recipe-1.json").write_text(directory.read(Recipe).to_json())
        directory.write(wanted)

    monkeypatch.setattr(recipe_changes, "restart", restart)
    directory.write(OWN)
    return directory


def test_a_trial_ends_with_the_recipe_as_it_was(place: DeploymentDir) -> None:
    def measured() -> None:
        with running_trial_recipe(place, OTHER, "other.yaml", "to be measured"):
            recipe_changes.restart(place, OTHER)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        measured()
    assert place.read(Recipe) == OWN
    assert unfinished_step(place) is None


def test_a_trial_that_was_killed_is_taken_back_by_the_next_look(place: DeploymentDir) -> None:
    if (child := os.fork()) == 0:
        with running_trial_recipe(place, OTHER, "other.yaml", "to be measured"):
            recipe_changes.restart(place, OTHER)
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    said: list[str] = []
    assert undo_interrupted(place, said.append) is not None
    assert said == ["other.yaml was being tried when that was interrupted: back to the last good recipe"]
    assert place.read(Recipe) == OWN
    assert undo_interrupted(place, said.append) is None


def test_a_trial_that_still_runs_is_let_run(place: DeploymentDir) -> None:
    said: list[str] = []
    with running_trial_recipe(place, OTHER, "other.yaml", "to be measured"):
        recipe_changes.restart(place, OTHER)
        with pytest.raises(LaunchError, match=f"by process {os.getpid()}$"):
            undo_interrupted(place, said.append)
        with pytest.raises(LaunchError, match="another recipe is being tried"):
            step(place, TrialChange("--flag", "2", "to be tried"), evidence(PROVED), pytest.fail, said.append)
        assert (place.read(Recipe), said) == (OTHER, [])
    assert undo_interrupted(place, said.append) is None


DEAR = unaffordable(900, 12)
PROVED = {"boot rates": "", "context needle 65536": "", "soak errors": DEAR}


def evidence(questions: dict[str, str]) -> Evidence:
    """A climb: each question, and why it was skipped; empty if it passed."""
    seen = [
        Observation.model_validate(
            {"rung": rung, "check": "x", "probe": probe, "verdict": "skipped" if reason else "passed",
             "reason": reason, "at": "", "seconds": 0, "request": {}, "response": None,
             "measured": {"completion_tokens": 1}}
        )
        for rung, _, probe, reason in ((*question.partition(" "), reason) for question, reason in questions.items())
    ]  # fmt: skip
    return Evidence(deployment="d", engine=None, engine_version=None, to_rung="soak", observations=tuple(seen))


@pytest.mark.parametrize(
    ("seen", "outcome", "reason"),
    [
        (
            PROVED | {"context needle 262144": AFTER_LEFT_OUT},
            "stepped back",
            "not proved, the budget left out 1 question, such as context needle 262144",
        ),
        (
            PROVED | {"context needle 65536": DEAR, "context needle 262144": AFTER_LEFT_OUT},
            "stepped back",
            "not proved, the budget left out 2 questions, such as context needle 65536",
        ),
        (
            PROVED | {"context needle 262144": "", "boot memory": "the engine's memory could not be read back"},
            "kept",
            "everything that was proved before is proved with it; as before the budget left out 1 question",
        ),
        (
            dict.fromkeys([*PROVED, "context needle 262144"], ""),
            "kept",
            "everything that was asked for is proved with it",
        ),
    ],
)
def test_a_change_is_kept_only_with_what_it_is_proved_with(
    place: DeploymentDir, seen: dict[str, str], outcome: str, reason: str
) -> None:
    change = context_change(OWN, 262_144)
    taken, _ = step(place, change, evidence(PROVED), lambda: evidence(seen), lambda words: None)
    assert (taken.outcome, taken.reason) == (outcome, reason)
    assert (place.read(Recipe) == OWN) == (outcome == "stepped back")


def test_no_restart_is_spent_on_a_change_when_the_budget_is_used_up(
    place: DeploymentDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(climbing, "_prove_once", lambda directory, options, tell: evidence(PROVED))
    said: list[str] = []
    options = ProofOptions("soak", prompts=prompt_set("tiny"), budget_seconds=0.0, tries=("--flag=2",))
    proved = climbing.prove_deployment(place, options, said.append)
    assert (said, proved.steps) == (["not tried, the budget is used up: --flag 2"], ())
    assert place.read(Recipe) == OWN
