"""Recipe -> a script that starts it with docker."""

from __future__ import annotations

from upright.facts.records.recipe import Recipe
from upright.planning.rendering.run_script import run_script


def docker_script(recipe: Recipe, *, drafted: Recipe | None = None, draft: str | None = None) -> str:
    return run_script(recipe, "docker", drafted=drafted, draft=draft)
