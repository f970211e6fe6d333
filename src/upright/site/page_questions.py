"""A message of the page -> a question, checked: the page and its worker speak JSON, and nothing else gets in."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from upright.records.base import Part
from upright.records.names import FitName
from upright.records.plan import Goal

MOST_COLUMNS = 4


class PageBox(Part):
    """Which machine."""

    box: FitName
    """A name of the catalogue, or a number of GPUs such as 4x-rtx-5090."""
    memory_gib: Annotated[float, Field(gt=0, lt=1e6)] | None = None
    """System RAM, where the visitor says it."""


class PageCase(PageBox):
    """A model on it, for a use."""

    model: FitName
    """A name of the catalogue, or the path of a file that the visitor dropped."""
    goal: Goal = Goal()


class PlanQuestion(PageCase):
    """What fits."""

    ask: Literal["plan"] = "plan"


class InsteadQuestion(PageCase):
    """Which smaller models fit, where this one does not; takes seconds."""

    ask: Literal["instead"] = "instead"


class RecipeQuestion(PageCase):
    """The command, with a reason for every flag, and every file that it can be written as."""

    ask: Literal["recipe"] = "recipe"


class RecommendQuestion(PageBox):
    """Which models to run on a box."""

    ask: Literal["recommend"] = "recommend"
    goal: Goal = Goal()


class AskedColumn(PageBox):
    """One column, with the prices that the visitor typed."""

    model: FitName
    purchase: float | None = None
    rent_hour: float | None = None
    watts: float | None = None


class CompareQuestion(Part):
    """Models on boxes, side by side."""

    ask: Literal["compare"] = "compare"
    columns: Annotated[tuple[AskedColumn, ...], Field(min_length=1, max_length=MOST_COLUMNS)]
    goal: Goal = Goal()
    kilowatt_hour: float | None = None
    api_million: float | None = None


class DiagnoseQuestion(Part):
    """Why an engine fell."""

    ask: Literal["diagnose"] = "diagnose"
    log: str
    engine: FitName | None = None


Question = Annotated[
    PlanQuestion | InsteadQuestion | RecipeQuestion | RecommendQuestion | CompareQuestion | DiagnoseQuestion,
    Field(discriminator="ask"),
]
