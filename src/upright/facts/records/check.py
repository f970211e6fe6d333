"""What was said of a command line before anything was started, and by whom."""

from __future__ import annotations

from typing import ClassVar, Literal

from upright.facts.records.base import Part, Reason, Record

Judge = Literal["parser", "recorded", "neighbour", "nobody"]


class Refusal(Part):
    """One setting that the judge does not take."""

    setting: str
    """The words, as they stand on the command line; empty if the judge named none."""
    message: Reason
    """What the judge says."""


class RecipeCheck(Record):
    """The engine's own parser, or the next best thing, on a recipe."""

    kind: ClassVar[str] = "recipe-check"

    engine: str
    """Which engine."""
    engine_version: str | None
    """The version that the recipe was written for."""
    judge: Judge
    """The engine's own parser; flags recorded of this version; of its nearest older one; nobody."""
    judged_by: str
    """Who that was, in words."""
    judged_version: str | None
    """The version that judged."""
    settings: int
    """How many settings were judged."""
    refusals: tuple[Refusal, ...] = ()
    """What was refused."""
    remarks: tuple[str, ...] = ()
    """What this verdict does not cover."""

    @property
    def verdict(self) -> Literal["accepted", "refused", "unverified"]:
        if self.refusals:
            return "refused"
        return "accepted" if self.judge in ("parser", "recorded") else "unverified"
