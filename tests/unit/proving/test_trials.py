"""A recipe on trial: whatever happens, the deployment's own comes back; after a kill at the next look."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.golden.deployments import recipe
from upright.proving import stepping
from upright.proving.journaled import unfinished_step
from upright.proving.stepping import on_trial, undo_interrupted
from upright.records.recipe import Recipe
from upright.store import DeploymentDir

OWN = recipe("kimi-k26-vllm")
OTHER = OWN.model_copy(update={"context_tokens": 1_024})


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DeploymentDir:
    """A restart keeps the recipe that it replaces, as the real one does."""
    directory = DeploymentDir(tmp_path)

    def restart(directory: DeploymentDir, wanted: Recipe) -> None:
        (tmp_path / "recipe-1.json").write_text(directory.read(Recipe).to_json())
        directory.write(wanted)

    monkeypatch.setattr(stepping, "restart", restart)
    directory.write(OWN)
    return directory


def test_a_trial_ends_with_the_recipe_as_it_was(place: DeploymentDir) -> None:
    def measured() -> None:
        with on_trial(place, OTHER, "other.yaml", "to be measured"):
            stepping.restart(place, OTHER)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        measured()
    assert place.read(Recipe) == OWN
    assert unfinished_step(place) is None


def test_a_trial_that_was_killed_is_taken_back_by_the_next_look(place: DeploymentDir) -> None:
    killed = on_trial(place, OTHER, "other.yaml", "to be measured")  # kept: it must not end
    killed.__enter__()
    stepping.restart(place, OTHER)
    said: list[str] = []
    assert undo_interrupted(place, said.append) is not None
    assert said == ["other.yaml was being tried when that was interrupted: back to the last good recipe"]
    assert place.read(Recipe) == OWN
    assert undo_interrupted(place, said.append) is None
