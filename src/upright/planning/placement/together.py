"""Plans for one box -> which of them fit on it at once."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from upright.facts.records.plan import Plan


def fit_together(plans: Sequence[Plan]) -> tuple[tuple[int, ...], ...]:
    """Places of the plans that fit beside each other, two or more; a set that another holds is not named again."""
    found: list[tuple[int, ...]] = []
    for size in range(len(plans), 1, -1):
        for places in combinations(range(len(plans)), size):
            if not any(set(places) <= set(larger) for larger in found) and _fit([plans[place] for place in places]):
                found.append(places)
    return tuple(found)


def _fit(plans: Sequence[Plan]) -> bool:
    devices = {budget.device for plan in plans for budget in plan.budgets}
    return all(sum(_taken(plan, device) for plan in plans) <= _room(plans, device) for device in devices)


def _taken(plan: Plan, device: str) -> float:
    """An engine that is given a share of its GPU fills it; others take what they need, at most."""
    if plan.memory_fraction is not None and device != "host":
        return sum(budget.capacity_bytes for budget in plan.budgets if budget.device == device)
    return sum(line.high_bytes for line in plan.ledger if line.device == device)


def _room(plans: Sequence[Plan], device: str) -> float:
    """The least that one of them counts on, were it alone."""
    return min(
        budget.capacity_bytes / (1 if device == "host" else plan.memory_fraction or 1)
        for plan in plans
        for budget in plan.budgets
        if budget.device == device
    )
