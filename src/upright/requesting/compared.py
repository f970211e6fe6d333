"""Plan requests -> Comparison: the best plan of each, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from upright.planning.artifacts import ArtifactChoice
from upright.recommending.side_by_side import Prices, column, steps
from upright.records.box import Box
from upright.records.compared_plans import Comparison
from upright.records.model import Model
from upright.records.plan import Goal
from upright.requesting.library import box_record, chosen, goal_with
from upright.requesting.planned import PlanRequest, plan_request


def compare(
    models: Sequence[str | Model],
    boxes: Sequence[str | Box],
    goal: Goal | None = None,
    *,
    engines: Sequence[str] = (),
    prices: Sequence[Prices] = (),
    **wishes: Any,
) -> Comparison:
    """Every model on every box with every engine that is named; `prices` are by box, in their order."""
    requests = [
        PlanRequest(
            chosen(model), box_record(box), goal_with(goal, {**wishes, **({"engine": engine} if engine else {})})
        )
        for model in models
        for box in boxes
        for engine in engines or (None,)
    ]
    by_box = {box_record(box).name: price for box, price in zip(boxes, prices, strict=False)}
    return compare_requests(requests, [by_box.get(request.box.name, Prices()) for request in requests])


def compare_requests(requests: Sequence[PlanRequest], prices: Sequence[Prices]) -> Comparison:
    columns = []
    for request, price in zip(requests, prices, strict=True):
        planned = plan_request(request)
        columns.append(column(planned.best, planned.artifact, _native(request.choice), request.box, price))
    goal = requests[0].goal.model_copy(update={"engine": None})
    return Comparison(goal=goal, columns=tuple(columns), steps=tuple(steps(columns)))


def _native(choice: ArtifactChoice) -> Model:
    return choice.model
