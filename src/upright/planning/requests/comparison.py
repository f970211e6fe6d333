"""`upright.compare`: the best plan of each request, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, repeat
from typing import Any

from upright.facts.records.box import Box
from upright.facts.records.comparison import Comparison
from upright.facts.records.model import Model
from upright.facts.records.plan import Goal
from upright.planning.recommending.comparison import Prices, compared_plan, step_words
from upright.planning.requests.library import artifact_choice_for, goal_with, on_boxes
from upright.planning.requests.plan_request import PlanRequest, plan_request, ram_words

_RAM_OPEN = "its system RAM is not specified, and with enough of it"


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
    asked = goal_with(goal, wishes)
    machines = [on_boxes(box, asked) for box in boxes]
    cases = [
        (PlanRequest(choice, machine, wish.model_copy(update={"engine": engine or wish.engine})), price)
        for choice in map(artifact_choice_for, models)
        for (machine, wish), price in zip(machines, chain(prices, repeat(Prices())), strict=False)
        for engine in engines or (None,)
    ]
    return compare_requests([request for request, _ in cases], [price for _, price in cases])


def compare_requests(requests: Sequence[PlanRequest], prices: Sequence[Prices]) -> Comparison:
    columns = []
    for request, price in zip(requests, prices, strict=True):
        planned = plan_request(request, advise=request.ram_may_decide)
        compared = compared_plan(planned.best, planned.artifact, request.box, price)
        if compared.why_not and planned.ram_unknown:
            why_not = f"{compared.why_not}; {_RAM_OPEN} {ram_words(planned.artifact)}: --ram"
            compared = compared.model_copy(update={"why_not": why_not})
        columns.append(compared)
    goal = requests[0].goal.model_copy(update={"engine": None})
    cases = [
        (request.choice.model.source, (request.box.name, request.goal.nodes), request.goal.engine)
        for request in requests
    ]
    return Comparison(goal=goal, columns=tuple(columns), steps=tuple(step_words(columns, cases)))
