"""`upright.plan`, `upright.render` and `upright.recommend`: records from plain arguments.

No terminal, no disk and no network: a name is a name of the catalogue, anything else comes as a record, of
`upright.read` or `upright.probe`. What earlier starts measured is an argument too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from upright.base.errors import EngineError, UsageError
from upright.facts import catalog
from upright.facts.records.box import Box
from upright.facts.records.model import Model
from upright.facts.records.plan import Goal, Plan
from upright.facts.records.recipe import Recipe
from upright.facts.records.recommendation import Recommendation
from upright.models.deriving.named_builds import build_by_name
from upright.planning.choosing.artifacts import ArtifactChoice, artifact_choice
from upright.planning.recommending import recommendation
from upright.planning.requests.plan_request import PlanRequest, plan_request
from upright.planning.requests.several_boxes import for_boxes_named

if TYPE_CHECKING:
    from upright.facts.records.kernel import KernelVerdict
    from upright.facts.records.residuals import Residuals

PORT = 8000


def plan(
    model: str | Model,
    box: str | Box,
    goal: Goal | None = None,
    *,
    measured: Sequence[Residuals] = (),
    verdicts: Sequence[KernelVerdict] = (),
    **wishes: Any,
) -> list[Plan]:
    """Every way to serve the model on the box, best first; one that does not fit says why, and what would.

    `wishes` are fields of `Goal` (`context_tokens=65_536, users=2`), laid over `goal` where both are given.
    """
    machine, goal = on_boxes(box, goal_with(goal, wishes))
    request = PlanRequest(artifact_choice_for(model), machine, goal, measured=measured, verdicts=verdicts)
    return list(plan_request(request).plans)


def render(
    plan: Plan,
    model: Model | None = None,
    box: Box | None = None,
    *,
    model_path: str | None = None,
    port: int = PORT,
    **wishes: Any,
) -> Recipe:
    """The exact command for a plan, with a reason for every flag.

    Model and box are needed where the plan is not of names of the catalogue. `wishes` are fields of
    `upright.planning.rendering.recipe.RenderOptions` (`served_name="k2", runtime="podman"`).
    """
    from upright.planning.rendering import recipe as rendering
    from upright.planning.requests.preparation import named_path

    if not plan.fits:
        raise EngineError(f"{plan.model} does not fit on {plan.box}: {plan.objections[0].message}")
    model = model or _artifact(plan)
    seen, box = box is not None, box or box_record(plan.box)
    try:
        wanted = replace(rendering.RenderOptions(must_be_installed=seen), **wishes)
    except TypeError as error:
        raise UsageError(f"render: {error}") from None
    path = model_path or named_path(model)
    return rendering.render(plan, model, box, model_path=path, port=port, wishes=wanted)


def recommend(
    box: str | Box,
    goal: Goal | None = None,
    *,
    most: int | None = recommendation.SHOWN,
    measured: Sequence[Residuals] = (),
    tell: Callable[[int], object] = lambda _: None,
    **wishes: Any,
) -> Recommendation:
    """The best models of the catalogue for the box, ranked by published quality and by what holds.

    `most` of them, or all that fit if None. `wishes` are fields of `Goal` (`context_tokens=131_072, users=2`), laid
    over `goal` where both are given. `tell` hears how many models were looked at, before each.
    """
    machine, goal = on_boxes(box, goal_with(goal, wishes))
    return recommendation.recommend(machine, goal, most=most, measured=measured, tell=tell)


def artifact_choice_for(model: str | Model) -> ArtifactChoice:
    if not isinstance(model, str):
        return ArtifactChoice(model)
    from upright.facts import catalog

    return artifact_choice(catalog.model_as_typed(model), _unread)


def _unread(text: str) -> Model:
    if (model := build_by_name(text)) is not None:
        return model
    raise UsageError(
        f"the catalogue does not know {text}, and nothing is read unasked",
        hint=f"hand its record in: upright.read({text!r})",
    )


def on_boxes(box: str | Box, goal: Goal) -> tuple[Box, Goal]:
    """One box as a record, and the goal for as many as the name says."""
    if not isinstance(box, str):
        return box, goal
    one, goal = for_boxes_named(box, goal)
    return box_record(one or box), goal


def box_record(box: str | Box) -> Box:
    return catalog.box_record(box) if isinstance(box, str) else box


def _artifact(plan: Plan) -> Model:
    """The artifact of the catalogue that the plan is of, and no other of the same name."""
    named = artifact_choice_for(plan.model)
    model = next((model for model in (named.model, *named.choose_from) if model.name == plan.model), named.model)
    if model.reference not in plan.made_from:
        raise UsageError(f"the plan is of another {plan.model} than the catalogue's", hint="hand in the model's record")
    return model


def goal_with(goal: Goal | None, wishes: dict[str, Any]) -> Goal:
    try:
        return Goal.model_validate({**(goal.model_dump() if goal else {}), **wishes})
    except ValidationError as error:
        fault = error.errors()[0]
        field = ".".join(str(part) for part in fault["loc"])
        raise UsageError(f"{field}: {fault['msg']}", hint=f"a goal has {', '.join(Goal.model_fields)}") from None
