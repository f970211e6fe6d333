"""Known holes of engines: which versions, what they allow to whom, and what to do."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from upright.facts.catalog import versions
from upright.facts.catalog.rows.base import NonEmptyText, Row, VersionRange
from upright.facts.catalog.rows.engine import Engine
from upright.facts.records.base import Part

Danger = Literal["critical", "high", "medium", "low"]
Reach = Literal["model", "network", "client", "nodes", "image", "elsewhere"]


class Affected(Part):
    """An engine, and the versions of it that have the hole."""

    engine: Engine
    """Which engine."""
    versions: VersionRange
    """Versions that have it."""
    fixed: str | None = None
    """The first version without it, where the range does not end with it; None if none is known."""
    note: str | None = None
    """How that is known, where it is not the advisory's own word."""

    @property
    def mended_in(self) -> str | None:
        """The first version without it."""
        return self.fixed or versions.bound(self.versions, "<")


class AdvisoryRow(Row):
    """A hole that somebody has published."""

    aliases: tuple[NonEmptyText, ...] = ()
    """Its other identifiers: GHSA-…, VU#…"""
    title: NonEmptyText
    """One line for people."""
    affected: Annotated[tuple[Affected, ...], Field(min_length=1)]
    """Engines and their versions."""
    danger: Danger
    """As its makers or the advisory rate it."""
    reach: Reach
    """By files of a model, the port without the key, the key, the ports between boxes, the image, or elsewhere."""
    needs: tuple[NonEmptyText, ...] = ()
    """Flags or variables without which it is not there; any one of them is enough."""
    allows: NonEmptyText
    """What it allows, to whom."""
    instead: NonEmptyText
    """What to do."""
    accepted: str | None = None
    """In a row of your own: why you run it all the same. Then nothing is refused for it, and a note says so."""

    @model_validator(mode="after")
    def _one_range_an_engine(self) -> Self:
        engines = [part.engine for part in self.affected]
        if len(set(engines)) != len(engines):
            raise ValueError("an engine is named twice")
        return self

    def of(self, engine: str, version: str | None) -> Affected | None:
        """What it says of this version; None if that has not the hole, or nobody knows the version."""
        part = next((part for part in self.affected if part.engine == engine), None)
        if part is None or version is None or not versions.in_range(version.partition("+")[0], part.versions):
            return None
        return part
