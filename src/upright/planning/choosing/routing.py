"""Use -> how the router chooses a box, and how much of a turn it must know already to keep it where it was read.

The router's flags and the simulation of a fleet are made of the same answer.
"""

from __future__ import annotations

from dataclasses import dataclass

from upright.facts.catalog import get
from upright.facts.catalog.rows.usage import UsageRow
from upright.facts.records.fleet import Policy
from upright.facts.records.plan import Use

SMG_VERSION = "1.13.0"
_LEAST_THRESHOLD = 0.5
_SHORT_OPENING = 2 / 3
"""Of a usual one: what still counts as a new task."""
_LEAST_SPILL = 2


@dataclass(frozen=True)
class RouterPolicy:
    """A policy and what it does, as its source says."""

    policy: Policy
    why: str
    cache_threshold: float | None = None
    """The share of a prompt that a box must have been sent before, to be sent this one; None where none is asked."""
    threshold_why: str = ""
    threshold_source: str | None = None
    spill_requests: int = _LEAST_SPILL
    """A box with so many more than the mean is too full for a turn that it knows."""


_SUITED: dict[Use, RouterPolicy] = {
    "coding-agent": RouterPolicy(
        "cache_aware",
        "each turn begins with the whole conversation before it, and the box that read that has it in its cache "
        "(prefix_hash looks at the first 1024 characters, which all agents share; consistent_hashing wants a header)",
    ),
    "chat": RouterPolicy("cache_aware", "a conversation stays where its history is in the cache"),
    "long-documents": RouterPolicy("cache_aware", "questions about a document go where it was read"),
    "batch": RouterPolicy("power_of_two", "nothing is asked twice: the emptier of two boxes drawn at random"),
}


def router_policy(
    use: Use,
    users: int = 1,
    *,
    policy: Policy = "auto",
    cache_threshold: float | None = None,
    shared_tokens: float | None = None,
    opening_tokens: float | None = None,
) -> RouterPolicy:
    """What was asked for, or what suits the use; `users` of one box. Tokens are the use's where they are not said."""
    suited = _SUITED[use]
    chosen = suited if policy in ("auto", suited.policy) else RouterPolicy(policy, "asked for in fleet.yaml")
    if chosen.policy != "cache_aware":
        return chosen
    spill = max(_LEAST_SPILL, users)
    if cache_threshold is not None:
        why = "asked for in fleet.yaml: a turn that repeats more than this of its text stays"
        return RouterPolicy(chosen.policy, chosen.why, cache_threshold, why, None, spill)
    row = get("usages", use)
    assert isinstance(row, UsageRow)
    shared = shared_tokens if shared_tokens is not None else row.shared_tokens.value or 0.0
    opening = opening_tokens or row.opening_tokens.median or row.opening_tokens.value or 0.0
    least, usual = (shared / (shared + opening * part) for part in (_SHORT_OPENING, 1))
    return RouterPolicy(
        chosen.policy,
        chosen.why,
        float(f"{max(_LEAST_THRESHOLD, least):.2g}"),
        f"a turn that repeats more than this of its text stays; a new task shares {shared:,.0f} "
        f"of {shared + opening:,.0f} tokens with others ({usual:.2f}) and goes where there is room",
        f"smg {SMG_VERSION}, model_gateway/src/policies/cache_aware.rs: only a longer match than this decides the box; "
        f"usages {use}: shared_tokens, opening_tokens",
        spill,
    )
