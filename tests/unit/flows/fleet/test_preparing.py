"""A box with a recipe of its own: what the recipe says, unless the box says otherwise."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from upright.base.errors import LaunchError
from upright.facts.records.fleet import Fleet
from upright.facts.records.recipe import Recipe, Setting
from upright.flows.fleet import box_plans
from upright.flows.fleet.box_plans import plan_fleet
from upright.flows.line import preparing as line
from upright.planning.rendering.router import router_recipe
from upright.planning.requests.plan_request import PlannedRequest

RECORD: Any = type("Record", (), {"reference": "box:0"})


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A recipe for podman, on a machine that needs not be looked at."""
    fleet = Fleet.model_validate({"name": "f", "model": "m", "boxes": [{"name": "a"}]})
    recipe = router_recipe(fleet, folder="/r", program="python3", served_name="m", context_tokens=1024)
    changes = {
        "runtime": "podman", "image": "own/image:1", "model_path": "/here/m.gguf",
        "arguments": (Setting(name="--model", value="/here/m.gguf", reason="read"),),
    }  # fmt: skip
    (tmp_path / "own.json").write_text(recipe.model_copy(update=changes).to_json())
    monkeypatch.setattr(line, "read", lambda path: RECORD)
    monkeypatch.setattr(line, "probe", lambda host: RECORD)
    monkeypatch.setattr(line, "plan_request", lambda request: PlannedRequest(request, [RECORD]))
    monkeypatch.setattr(box_plans, "refuse_missing_runtime", lambda recipe, host: None)
    return tmp_path / "own.json"


def planned(file: Path, **more: object) -> Recipe:
    box = {"name": "a", "port": 8111, "recipe": file.name, **more}
    fleet = Fleet.model_validate({"name": "f", "boxes": [box]})
    made = plan_fleet(fleet, file.parent, tell=lambda words: None)[0]
    if made.problem is not None:
        raise made.problem
    assert made.prepared is not None
    assert made.prepared.recipe is not None
    return made.prepared.recipe


def test_what_the_box_does_not_say_is_the_recipes(file: Path):
    recipe = planned(file)
    assert (recipe.runtime, recipe.image, recipe.model_path) == ("podman", "own/image:1", "/here/m.gguf")
    assert recipe.port == 8111


def test_what_the_box_says_goes_before(file: Path):
    recipe = planned(file, runtime="docker", image="other/image:2", model_path="/there/m.gguf")
    assert (recipe.runtime, recipe.image) == ("docker", "other/image:2")
    assert (recipe.model_path, recipe.argv[1:]) == ("/there/m.gguf", ("--model", "/there/m.gguf"))
    assert planned(file, runtime="process").runtime == "process"


def test_a_machine_without_the_runtime_is_known_before_anything_is_restarted(file: Path, monkeypatch):
    def refuse(recipe: Recipe, host: object) -> None:
        raise LaunchError("podman is not on this machine")

    monkeypatch.setattr(box_plans, "refuse_missing_runtime", refuse)
    with pytest.raises(LaunchError, match="podman is not on this machine"):
        planned(file)
