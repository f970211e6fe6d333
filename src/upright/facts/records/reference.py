"""How a model goes on after fixed prompts: the tokens that it chose, and how likely it held those and others."""

from typing import Annotated, ClassVar

from pydantic import Field

from upright.facts.records.base import Part, QuotedText, Record
from upright.facts.records.names import SafeName

Token = Annotated[QuotedText, Field(max_length=400)]
LogProbability = Annotated[float, Field(le=0.01)]
"""Natural logarithm; engines round, so a certain token may lie a hair above zero."""
DecodedStep = Annotated[tuple[tuple[Token, LogProbability], ...], Field(min_length=1, max_length=64)]
"""One decoded token: the chosen one first, then the most likely ones of the same step."""


class Continuation(Part):
    """One prompt, decoded greedily."""

    prompt: str
    """The prompt's name in its set."""
    text: QuotedText
    """The answer's text."""
    steps: Annotated[tuple[DecodedStep, ...], Field(max_length=4096)]
    """Each decoded token with the most likely ones beside it."""


class Reference(Record):
    """What a deployment is held against: made once, at the highest precision at hand."""

    kind: ClassVar[str] = "reference"

    model: SafeName
    """The name that was served."""
    engine: SafeName | None
    """Which engine made it; None if the server does not say."""
    engine_version: SafeName | None
    """Its version."""
    subject: str
    """`recipe:sha256` of what was running, or `server:sha256` of an address and a model's name."""
    prompts: str
    """The prompt set and its digest; another set cannot be compared."""
    top: int
    """How many of the most likely tokens were asked for in each step."""
    continuations: tuple[Continuation, ...]
    """One for each prompt."""
