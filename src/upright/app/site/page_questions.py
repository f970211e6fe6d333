"""Questions of the page, checked: the page and its worker speak JSON, and nothing else gets in."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from upright.facts.records.base import Part
from upright.facts.records.names import SafeName
from upright.facts.records.plan import Goal

MOST_COLUMNS = 4


class PageBox(Part):
    """Which machine."""

    box: SafeName
    """A name of the catalogue, or a number of GPUs such as 4x-rtx-5090."""
    memory_gib: Annotated[float, Field(gt=0, lt=1e6)] | None = None
    """System RAM, where the visitor says it."""


class PageCase(PageBox):
    """A model on it, for a use."""

    model: SafeName
    """A name of the catalogue, or the path of a file that the visitor dropped."""
    goal: Goal = Goal()
    """What it shall do."""


class PlanQuestion(PageCase):
    """What fits."""

    ask: Literal["plan"] = "plan"
    """Which question this is."""


class SpeedQuestion(PageCase):
    """How fast one configuration is: a point of a curve."""

    ask: Literal["speed"] = "speed"
    """Which question."""


class InsteadQuestion(PageCase):
    """Which smaller models fit, where this one does not; takes seconds."""

    ask: Literal["instead"] = "instead"
    """Which question this is."""


class RecipeQuestion(PageCase):
    """The command, with a reason for every flag, and every file that it can be written as."""

    ask: Literal["recipe"] = "recipe"
    """Which question this is."""


class RecommendQuestion(PageBox):
    """Which models to run on a box."""

    ask: Literal["recommend"] = "recommend"
    """Which question this is."""
    goal: Goal = Goal()
    """What it shall do."""


class AskedColumn(PageBox):
    """One column, with the prices that the visitor typed."""

    model: SafeName
    """A name of the catalogue."""
    purchase: float | None = None
    """Price of the box."""
    rent_hour: float | None = None
    """Rent of the box an hour."""
    watts: float | None = None
    """Of the box at full load."""


class CompareQuestion(Part):
    """Models on boxes, side by side."""

    ask: Literal["compare"] = "compare"
    """Which question this is."""
    columns: Annotated[tuple[AskedColumn, ...], Field(min_length=1, max_length=MOST_COLUMNS)]
    """From left to right."""
    goal: Goal = Goal()
    """What it shall do."""
    kilowatt_hour: float | None = None
    """Price of a kilowatt hour."""
    api_million: float | None = None
    """Price of a million output tokens of an API, to break even with."""


class DiagnoseQuestion(Part):
    """Why an engine fell."""

    ask: Literal["diagnose"] = "diagnose"
    """Which question this is."""
    log: str
    """Its text."""
    engine: SafeName | None = None
    """Whose log it is, if its lines do not say so."""


Question = Annotated[
    PlanQuestion
    | SpeedQuestion
    | InsteadQuestion
    | RecipeQuestion
    | RecommendQuestion
    | CompareQuestion
    | DiagnoseQuestion,
    Field(discriminator="ask"),
]
