"""Boxes, models or engines side by side."""

from collections.abc import Mapping
from typing import ClassVar

from upright.facts.records.base import Part, Reason, Record, Upgrade, fields_added
from upright.facts.records.names import SafeName
from upright.facts.records.plan import Goal, Rate, Turn


class Costs(Part):
    """By the prices that the person said, in whatever currency; None where one is missing."""

    purchase: float | None
    """Price of the box."""
    rent_hour: float | None
    """Rent of an hour."""
    kilowatt_hour: float | None
    """Price of a kilowatt hour."""
    api_million: float | None
    """Price of a million output tokens of an API."""
    energy_million: float | None
    """Energy for a million output tokens, at full use."""
    rent_million: float | None
    """Rent for a million output tokens, at full use."""
    purchase_per_token_per_second: float | None
    """Price of the box for each token a second of all users."""
    tokens_per_joule: float | None
    """Output tokens a second for each watt."""
    break_even_tokens: float | None
    """Output tokens after which the box has cost as much as the API; None if never, not known, or not asked."""
    break_even_hours: float | None
    """The same in hours of full use."""


class ComparedPlan(Part):
    """One model on one box."""

    model: SafeName
    """Name of the artifact."""
    box: SafeName
    """Which machine."""
    engine: SafeName
    """Which engine."""
    fits: bool
    """Whether the plan has no objection."""
    why_not: Reason | None
    """The first objection."""
    native: bool
    """Whether nothing was lost of the weights as they were trained or published."""
    bits: float
    """Bits of a routed weight."""
    download_bytes: int
    """Size of its tensors."""
    gpu_memory_bytes: int
    """Memory of all GPUs."""
    context_tokens: int
    """Context for each user."""
    largest_context_tokens: int
    """Longest context for one user alone."""
    users_at_context: int
    """Users who can each fill that context at once."""
    cache_tokens: int
    """Tokens that the KV cache holds at least."""
    decode: Rate | None
    """Tokens a second that each user sees; None if not known."""
    together: Rate | None
    """Tokens a second of all users."""
    prompt: Rate | None
    """Tokens a second while a prompt is read."""
    turn: Turn | None = None
    """Seconds for a turn of one user; None where prefill is not known."""
    offloaded_layers: int
    """Layers whose experts are in system RAM."""
    watts: float | None
    """Of the box as the person said, otherwise the limits of its GPUs alone; None if unknown."""
    watts_given: bool
    """Whether the person said them."""
    costs: Costs | None
    """None if no price was said."""


class Comparison(Record):
    """Columns side by side."""

    kind: ClassVar[str] = "comparison"
    schema_version: ClassVar[int] = 5
    upgrades: ClassVar[Mapping[int, Upgrade]] = dict.fromkeys((1, 2, 3, 4), fields_added)

    goal: Goal
    """What was asked of each."""
    columns: tuple[ComparedPlan, ...]
    """In the order in which they were named."""
    steps: tuple[str, ...]
    """What each has that the one before has not."""
