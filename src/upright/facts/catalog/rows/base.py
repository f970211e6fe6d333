"""A row: an id, what it says, where that was learned, and how well.

Rows are facts: no conditionals, no expressions, no inheritance. When a row wants an `if`, it names a function.
"""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from upright.facts.catalog import versions
from upright.facts.records.base import Figure, Part

Grade = Literal["A", "B", "C", "D"]
"""A read in the primary source, B a public report or a recalled vendor figure, C a chat digest, D derived by us."""

Owner = Literal["upright", "package", "catalogue", "user"]


def _range(text: str) -> str:
    versions.clauses(text)
    return text


VersionRange = Annotated[str, AfterValidator(_range)]
"""`*`, or comparisons such as `>=0.18,<0.26`."""

NonEmptyText = Annotated[str, Field(min_length=1)]


class Row(Part):
    """One fact, or one thing with its facts."""

    id: NonEmptyText
    """The name that people type."""
    grade: Grade
    """How well it is known: A primary source, B public report or recalled figure, C chat digest, D derived."""
    sources: Annotated[tuple[NonEmptyText, ...], Field(min_length=1)]
    """Where it was learned: addresses, or an engine's file at a version."""
    owner: Owner = "upright"
    """upright; package: it came with an engine of another; catalogue: a signed one that was taken; user: your own."""
    file: str = ""
    """The file that holds it."""


class Fact(Part):
    """A number with its own source and grade."""

    value: int | float | None
    """The number, in the unit that the field's name ends with; None says that it is known to be unknown."""
    grade: Grade
    """As for a row."""
    source: NonEmptyText
    """Where this number was learned."""
    note: str | None = None
    """What to keep in mind: a condition, a conflicting source."""

    def figure(self, where: str, factor: float = 1) -> Figure:
        """The number as a record carries it, in another unit if a factor is given."""
        why = f"{where}: {self.source} (grade {self.grade})"
        if self.value is None:
            return Figure(value=None, basis=None, source=why)
        scaled = self.value * factor
        return Figure(value=int(scaled) if float(scaled).is_integer() else scaled, basis="catalog", source=why)


def facts(row: Row) -> dict[str, Fact]:
    """The row's numbers by field name."""
    attributes: dict[str, Any] = {name: getattr(row, name) for name in type(row).model_fields}
    return {name: attribute for name, attribute in attributes.items() if isinstance(attribute, Fact)}
