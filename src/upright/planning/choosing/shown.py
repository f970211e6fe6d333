"""A plan of whole layers -> the capacity of the placement that it shows.

More tokens would fit if experts were moved off the GPUs: that is another plan, with another speed.
"""

from __future__ import annotations

from upright.facts.records.plan import Plan
from upright.planning.placement.devices import HOST


def of_placement(plan: Plan) -> Plan:
    """With the tokens and users that were asked for, where experts on GPUs fill what the cache leaves.

    What their last layer happens to leave over would be less with more memory, and is not promised.
    """
    in_ram = any(place.device == HOST for place in plan.expert_places)
    if plan.memory_fraction is not None or not plan.expert_places or (plan.fits and not in_ram):
        return plan
    best = min(plan.kv.capacity_tokens, plan.kv.planned_tokens)
    low = best if plan.fits else min(plan.kv.low_tokens, best)
    kv = plan.kv.model_copy(update={"low_tokens": low, "capacity_tokens": best, "high_tokens": best})
    return plan.model_copy(update={"kv": kv, "users_at_context": low // plan.context_tokens})
