"""Whether speculative decoding pays here: each candidate against the recipe, cell by cell, and the verdict."""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from upright.facts.records.base import Part, Reason, Record, Upgrade
from upright.facts.records.benchmark import Shape

CellVerdict = Literal["wins", "loses", "no difference", "cannot tell", "not measurable"]
TRIAL = "speculation"
"""The workload's name in the benchmark of a trial."""
Outcome = Literal["kept", "stepped back", "fell", "damages"]


class Factor(Part):
    """How much greater a figure is with the candidate, and the 95 % interval of that; no interval from one pair."""

    factor: float
    """With it / without it."""
    low: float | None
    """The lower end."""
    high: float | None
    """The upper end."""


class Expectation(Part):
    """What somebody published for the nearest case: another box and mostly another model."""

    factor: float
    """Output tokens a second, with / without."""
    what: str
    """Model, GPUs and spread of those two runs."""
    context_tokens: int
    """Their context."""
    concurrency: int
    """Their requests at once."""
    rows: tuple[str, ...]
    """The catalogue's measurements: without, with."""
    source: str
    """Where they were published."""


class SpeculationCell(Part):
    """One load with and without the candidate, measured in turns."""

    shape: Shape
    """What was asked."""
    verdict: CellVerdict
    """By output tokens a second. No difference: it is surely small; cannot tell: the pairs vary more than that."""
    reason: Reason
    """In words."""
    base_tokens_per_second: float | None = None
    """Output tokens a second without it, mean."""
    tokens_per_second: float | None = None
    """Output tokens a second with it, mean."""
    output: Factor | None = None
    """Of output tokens a second."""
    ttft: Factor | None = None
    """Of the time to first token; below 1 is better."""
    tpot: Factor | None = None
    """Of the time per output token; below 1 is better."""
    pairs: int = 0
    """Repeats that both have clean."""
    acceptance: float | None = None
    """Share of the guesses that held in this cell, by the engine's own count; None if it does not say."""
    published: Expectation | None = None
    """What was published for the nearest case; None if nothing was for this method."""


class Tried(Part):
    """One candidate, and what came of it."""

    name: str
    """In words: eagle3 kimi-k2.6-eagle3-mla, 3 guesses."""
    way: str
    """As it is named to try it again: eagle3=PATH,k=3."""
    method: str
    """none, ngram, draft, eagle3, mtp, dflash."""
    settings: tuple[str, ...]
    """The words that it adds to the recipe."""
    recipe: str
    """`recipe:sha256` with it."""
    outcome: Outcome
    """kept; stepped back: it does not pay; fell: it does not run; damages: its answers are not the model's."""
    reason: Reason
    """Why."""
    code: str | None = None
    """The failures catalogue's code, if it fell and the catalogue knows why."""
    answers: int = 0
    """Questions of smoke and tools that were put with and without it."""
    answers_alike: int = 0
    """Answers that are word for word the same; others may be as right."""
    damage: tuple[Reason, ...] = ()
    """Answers that were right without it and are wrong with it, or that a guard spoke of."""
    drafted_tokens: int | None = None
    """Tokens that it guessed, by the engine's own count; None if it does not say."""
    acceptance: float | None = None
    """Share of all guesses that held."""
    acceptance_at: tuple[float, ...] | None = None
    """Share of the rounds in which the guess at each position held; None if the engine does not say."""
    pool_tokens: int | None = None
    """Tokens that the cache holds with it, in the engine's own words."""
    cache_bytes: int | None = None
    """Memory of the caches with it, the draft's own among them."""
    cells: tuple[SpeculationCell, ...] = ()
    """Its verdict by cell."""
    notes: tuple[Reason, ...] = ()
    """What else to know: guesses that collapse, a pool that shrank."""

    def count(self, verdict: CellVerdict) -> int:
        return sum(cell.verdict == verdict for cell in self.cells)


def _from_1(content: dict[str, Any]) -> dict[str, Any]:
    """Schema 1 called every cell without a sure difference "no difference"; its words stay as they were written."""
    return content


class Speculation(Record):
    """One trial of speculative decoding on one deployment."""

    kind: ClassVar[str] = "speculation"
    schema_version: ClassVar[int] = 2
    upgrades: ClassVar[Mapping[int, Upgrade]] = {1: _from_1}

    deployment: str
    """Which deployment."""
    engine: str
    """Which engine."""
    engine_version: str | None
    """Its version."""
    at: str
    """When it began (UTC, ISO 8601)."""
    context_tokens: int
    """The Goal: context for each user."""
    users: int
    """The Goal: requests at once."""
    asked: str
    """What every prompt ended with: acceptance depends on what is written."""
    run: str | None
    """The benchmark that holds every cell; None if none was measured."""
    base: str
    """`recipe:sha256` of the recipe as it was."""
    base_speculates: str | None
    """What that recipe itself says of guessing; None if it does not guess."""
    base_pool_tokens: int | None
    """Tokens that its cache holds, in the engine's own words."""
    base_cache_bytes: int | None
    """Memory of its cache."""
    tried: tuple[Tried, ...]
    """Every candidate."""
    recommendation: str
    """One sentence for the Goal."""
    runs: str
    """`recipe:sha256` of what runs now."""

    @property
    def kept(self) -> Tried | None:
        return next((candidate for candidate in self.tried if candidate.outcome == "kept"), None)
