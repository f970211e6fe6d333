"""Everything that is known before an engine is started: box, model, plan, recipe."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import PurePath

from upright.facts.records.box import Box
from upright.facts.records.model import Model
from upright.facts.records.plan import Plan
from upright.facts.records.recipe import FIRST_FILE, UNKNOWN_FOLDER, Recipe
from upright.planning.rendering import render
from upright.planning.rendering.recipe import RenderOptions
from upright.planning.requests.plan_request import PlanRequest, plan_request

Locate = Callable[[Model], str]
"""An artifact -> the path that an engine is told."""


@dataclass(frozen=True)
class Prepared:
    """Everything that is known before an engine is started."""

    box: Box
    model: Model
    plan: Plan
    recipe: Recipe | None
    """None when the plan has objections. The first box's, where several hold the model together."""
    followers: tuple[Recipe, ...] = ()
    """Those of the other boxes."""
    ram_unknown: bool = False
    """Whether system RAM, which nobody gave, may be all that is missing."""


def prepare(request: PlanRequest, locate: Locate, *, port: int, wishes: RenderOptions | None = None) -> Prepared:
    """Source -> artifact -> plan -> recipe. Only for a plan that fits somebody is asked where the weights are."""
    planned = plan_request(request)
    box, artifact, best = request.box, planned.artifact, planned.best
    if not best.fits:
        return Prepared(box, artifact, best, None, ram_unknown=planned.ram_unknown)
    path, wishes = locate(artifact), wishes or RenderOptions()
    recipe, *followers = (
        render(best, artifact, box, model_path=path, port=port, wishes=replace(wishes, node=node))
        for node in range(best.parallel.nodes)
    )
    return Prepared(box, artifact, best, recipe, tuple(followers))


def named_path(artifact: Model) -> str:
    """Where its weights were read, else the repository; of a GGUF that is not here at most the name is known."""
    if artifact.path:
        return artifact.path
    if artifact.format == "gguf":
        name = PurePath(artifact.files[0].name).name if artifact.files else FIRST_FILE
        return f"{UNKNOWN_FOLDER}/{name}"
    return artifact.source
