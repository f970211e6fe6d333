"""A plan of whole layers -> the capacity of the placement that it shows.

More tokens would fit if experts were moved off the GPUs: that is another plan, with another speed.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from upright.facts.records.plan import Plan
from upright.planning.placement.devices import HOST


def of_placement(plan: Plan) -> Plan:
    """With the tokens and users that fit beside the experts where they are.

    Experts on GPUs fill what the cache leaves: what their last layer happens to leave over would be less with more
    memory, and is not promised.
    """
    if plan.memory_fraction is not None or not plan.expert_places:
        return plan
    if any(place.device == HOST for place in plan.expert_places):
        best = min(plan.kv.capacity_tokens, plan.kv.planned_tokens)
        low = best if plan.fits else min(plan.kv.low_tokens, best)
    elif not plan.fits:
        return plan
    else:
        low = min(plan.kv.low_tokens, _tokens(plan, plan.high_bytes))
        best = min(plan.kv.capacity_tokens, max(low, _tokens(plan, plan.used_bytes)))
    kv = plan.kv.model_copy(
        update={"low_tokens": low, "capacity_tokens": best, "high_tokens": min(plan.kv.high_tokens, best)}
    )
    return plan.model_copy(update={"kv": kv, "users_at_context": low // plan.context_tokens})


def _tokens(plan: Plan, taken: Callable[[str], int]) -> int:
    """What was planned, and as much more as the tightest device has room for."""
    more = []
    for budget in plan.budgets:
        cache = sum(
            line.bytes for line in plan.ledger if line.device == budget.device and line.term in ("kv_cache", "state")
        )
        if cache:
            more.append(Fraction(max(0, budget.capacity_bytes - taken(budget.device)), cache))
    return plan.kv.planned_tokens + int(plan.kv.planned_tokens * min(more, default=Fraction(0)))
