"""Dialects: how models write tool calls and thinking, told by chat template, special tokens and architecture."""

from typing import Self

from pydantic import Field, model_validator

from upright.facts.catalog.rows.base import NonEmptyText, Row
from upright.facts.catalog.rows.model import Parsers


class DialectRow(Row):
    """One way of writing tool calls. The first row that fits an artifact is its dialect."""

    about: NonEmptyText
    """Whose way it is, and what it looks like."""
    marks: tuple[NonEmptyText, ...] = ()
    """All of these stand in the chat template or are special tokens."""
    without: tuple[NonEmptyText, ...] = ()
    """None of these does."""
    architectures: tuple[NonEmptyText, ...] = ()
    """Only these architectures, as config.json names them; empty for any."""
    thinking_mark: NonEmptyText | None = None
    """What stands in the template of a model that thinks; None if it always does, or never."""
    parsers: dict[str, Parsers]
    """By engine; the reasoning parser is told only where the thinking mark is."""
    doubts: dict[str, NonEmptyText] = Field(default_factory=dict)
    """By engine: what was seen to go wrong with such calls, and what decides it."""

    @model_validator(mode="after")
    def _fits_something(self) -> Self:
        if not self.marks and not self.architectures:
            raise ValueError("a dialect without marks and architectures would fit every model")
        return self

    @property
    def all_marks(self) -> tuple[str, ...]:
        """Everything that must be looked for to tell whether the row fits."""
        return (*self.marks, *self.without, *((self.thinking_mark,) if self.thinking_mark else ()))

    def fits(self, architecture: str, marks: frozenset[str]) -> bool:
        if self.architectures and architecture not in self.architectures:
            return False
        return marks.issuperset(self.marks) and marks.isdisjoint(self.without)

    def parsers_of(self, engine: str, marks: frozenset[str]) -> Parsers | None:
        """As an artifact with these marks needs them; None if the engine has none for this dialect."""
        parsers = self.parsers.get(engine)
        if parsers is None or self.thinking_mark is None or self.thinking_mark in marks:
            return parsers
        return parsers.model_copy(update={"reasoning": None})
