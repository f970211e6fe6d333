"""The arguments of `compare` as people type them: the plan requests of its columns, and the prices of each.

Looks at what they name, as `asking` does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from upright.base.errors import UsageError
from upright.facts.records.box import Box
from upright.facts.records.comparison import ComparedPlan, Comparison
from upright.facts.records.plan import Goal
from upright.planning.recommending.comparison import Prices
from upright.planning.requests.comparison import compare_requests
from upright.planning.requests.plan_arguments import NamedBox, artifacts_of, box_named, measurements, owner_figures
from upright.planning.requests.plan_request import PlanRequest
from upright.planning.requests.several_boxes import for_boxes_named

MOST = 16
"""Columns; more are no comparison that a person can read."""


@dataclass(frozen=True)
class CompareArguments:
    """Models times boxes times engines, in the order in which they were named."""

    models: Sequence[str]
    boxes: Sequence[str | None]
    engines: Sequence[str | None]
    memory_gib: float | None
    bandwidth_gb: float | None
    goal: Goal

    def __post_init__(self) -> None:
        count = len(self.models) * len(self.boxes) * len(self.engines)
        if count > MOST:
            raise UsageError(f"{count} columns cannot be read side by side", hint=f"name at most {MOST}")

    def comparison(self, prices: Sequence[Prices]) -> Comparison:
        measured = measurements()
        goals = [for_boxes_named(box, self.goal)[1] for box in self.boxes]
        machines = [self._machine(box) for box in self.boxes]
        cases = [
            (PlanRequest(choice, machine, goal.model_copy(update={"engine": engine}), measured=measured), price)
            for choice in map(artifacts_of, self.models)
            for machine, goal, price in zip(machines, goals, prices, strict=True)
            for engine in self.engines
        ]
        return compare_requests([request for request, _ in cases], [price for _, price in cases])

    def _machine(self, box: str | None) -> Box:
        """What is said of system RAM is said of those boxes that do not say it, or of the only one."""
        machine = box_named(NamedBox(box, bandwidth_gb=self.bandwidth_gb))
        if len(self.boxes) > 1 and machine.memory_bytes.value is not None:
            return machine
        return machine.model_copy(update=owner_figures(NamedBox(memory_gib=self.memory_gib), machine))

    def best(self, comparison: Comparison) -> ComparedPlan | None:
        """The fastest of the first model that fits anywhere."""
        each = len(comparison.columns) // len(self.models)
        models = (comparison.columns[start : start + each] for start in range(0, len(comparison.columns), each))
        fitting = next((held for of_model in models if (held := [one for one in of_model if one.fits])), [])
        return max(fitting, key=lambda one: (one.decode.best or one.decode.low) if one.decode else 0.0, default=None)

    def words_of(self, comparison: Comparison, column: ComparedPlan) -> list[str]:
        """MODEL, --box and --engine of one column, as `plan` takes them."""
        model, rest = divmod(comparison.columns.index(column), len(self.boxes) * len(self.engines))
        box = self.boxes[rest // len(self.engines)]
        engine = self.engines[rest % len(self.engines)]
        return [self.models[model], *(["--box", box] if box else []), *(["--engine", engine] if engine else [])]


def prices_of_boxes(
    boxes: int,
    purchases: Sequence[float],
    rents: Sequence[float],
    watts: Sequence[float],
    *,
    kilowatt_hour: float | None,
    api_million: float | None,
) -> list[Prices]:
    """One for each box, as they were typed."""
    for name, typed in (("--price", purchases), ("--rent", rents), ("--watt", watts)):
        if len(typed) not in (0, boxes):
            raise UsageError(f"{len(typed)} times {name} for {boxes} boxes", hint="one for each box, in their order")
    if api_million is not None and not purchases:
        raise UsageError("what breaks even with an API needs the price of the box", hint="--price, one for each box")
    columns = ((typed[index] if typed else None for typed in (purchases, rents, watts)) for index in range(boxes))
    return [Prices(purchase, rent, power, kilowatt_hour, api_million) for purchase, rent, power in columns]
