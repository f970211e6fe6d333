"""What was said of a command line before anything was started, and by whom."""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from upright.facts.records.base import Part, Reason, Record, Upgrade

Judge = Literal["parser", "recorded", "neighbour", "nobody"]


class Refusal(Part):
    """One setting that the judge does not take."""

    setting: str
    """The words, as they stand on the command line; empty if the judge named none."""
    message: Reason
    """What the judge says."""


StartVerdict = Literal["accepts", "refuses", "not-known"]


class StartAnswer(Part):
    """What the engine's own start code said, on a GPU that need not be there."""

    verdict: StartVerdict
    """An acceptance proves the start and nothing behind it: no kernel was launched, no request was made."""
    stage: str
    """How far it came."""
    sentence: Reason = ""
    """The engine's own, where it raised something."""
    file: str = ""
    """Where in the engine that stands; empty if it is not the engine's."""
    line: int = 0
    """Its line."""
    why: Reason = ""
    """Of "not-known": why nobody knows."""
    asked_version: str | None = None
    """The version that was asked."""
    weight_bytes: int | None = None
    """Of one rank, before they are processed; None if it did not come so far."""
    block_tokens: int | None = None
    """Tokens of a block of the cache."""
    free_bytes: int | None = None
    """What a rank was said to have free for its cache; None if nobody said."""
    free_at_most: bool = False
    """That this is the engine's share of the card less the weights, where no plan says it: it has less."""
    pool_tokens: int | None = None
    """What the engine makes of that."""
    not_asked: tuple[str, ...] = ()
    """What could not be asked, or only of a stand-in."""


def _from_1(content: dict[str, Any]) -> dict[str, Any]:
    """Schema 1 asked nobody but parsers."""
    return content


class RecipeCheck(Record):
    """The engine's own parser, or the next best thing, on a recipe."""

    kind: ClassVar[str] = "recipe-check"
    schema_version: ClassVar[int] = 2
    upgrades: ClassVar[Mapping[int, Upgrade]] = {1: _from_1}

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

    start: StartAnswer | None = None
    """The engine's own start code; None if it was not asked."""

    @property
    def verdict(self) -> Literal["accepted", "refused", "unverified"]:
        if self.refusals:
            return "refused"
        return "accepted" if self.judge in ("parser", "recorded") else "unverified"
