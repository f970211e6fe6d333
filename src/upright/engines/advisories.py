"""Published security advisories that apply to an engine as it is run: refused, or a warning.

Refused is what is grave, reachable as it is run, and better elsewhere: another version, or without a flag. What has
no better is a warning; what only a person with the key can do, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from ipaddress import ip_address
from typing import TYPE_CHECKING, NamedTuple

from upright.base.errors import EngineError
from upright.facts.catalog import advisories, find_image
from upright.facts.records.recipe import Recipe

if TYPE_CHECKING:
    from upright.facts.catalog.rows.advisory import AdvisoryRow, Affected

_GRAVE = ("critical", "high")


class EngineRun(NamedTuple):
    """How an engine is run, as far as holes go by it."""

    engine: str
    version: str | None
    host: str = "127.0.0.1"
    nodes: int = 1
    words: frozenset[str] = frozenset()
    """Flags and variables that it is given."""
    in_image: bool = False

    @classmethod
    def of(cls, recipe: Recipe) -> EngineRun:
        settings = (*recipe.arguments, *recipe.environment)
        image = find_image(recipe.circumstances.image) if recipe.circumstances and recipe.circumstances.image else None
        return cls(
            engine=recipe.engine,
            version=(image and image.near_version) or recipe.engine_version,
            host=recipe.host,
            nodes=recipe.nodes,
            words=frozenset(setting.name for setting in settings),
            in_image=recipe.runtime != "process",
        )

    @property
    def is_local(self) -> bool:
        """Whether only processes of the same machine reach the port."""
        if self.host == "localhost":
            return True
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return False


class OpenAdvisory(NamedTuple):
    """A hole that is open."""

    row: AdvisoryRow
    affected: Affected
    refused: bool

    @property
    def instead(self) -> str:
        return self.row.instead.rstrip(".")


def open_advisories(run: EngineRun) -> tuple[OpenAdvisory, ...]:
    """What is open, the refused ones first."""
    if run.version is None or "dev" in run.version:  # a build between two releases is neither
        return ()
    rows = advisories(run.engine, run.version)
    return tuple(sorted(_open(run, rows), key=lambda hole: (not hole.refused, hole.row.id)))


def refuse_advisories(recipe: Recipe) -> None:
    """EngineError if this recipe would run with a grave hole open that need not be."""
    refused = [hole for hole in open_advisories(EngineRun.of(recipe)) if hole.refused]
    if refused:
        raise EngineError(
            f"{recipe.engine} {recipe.engine_version} is not started like this: {advisory_summary(refused)}",
            hint=f"{refused[0].instead}; upright explain {refused[0].row.id}",
        )


def notes(recipe: Recipe) -> tuple[str, ...]:
    """What is open and not refused, each in a sentence."""
    return tuple(_note(hole) for hole in open_advisories(EngineRun.of(recipe)) if not hole.refused)


def _note(hole: OpenAdvisory) -> str:
    if hole.row.accepted:
        return f"{hole.row.id} is open, and accepted in your catalogue: {hole.row.accepted}"
    return f"{hole.row.id} ({hole.row.danger}): {hole.row.title}. {hole.row.instead}"


def advisory_summary(found: Iterable[OpenAdvisory]) -> str:
    """Which, each with its danger, in one line."""
    return "; ".join(f"{hole.row.id}, {hole.row.danger}: {hole.row.title}" for hole in found)


def _open(run: EngineRun, rows: Iterable[AdvisoryRow]) -> Iterator[OpenAdvisory]:
    for row in rows:
        affected = row.of(run.engine, run.version)
        if affected is None or (row.needs and not run.words.intersection(row.needs)):
            continue
        if (exposed := _exposed(row, run)) is None:
            continue
        better = affected.mended_in is not None or bool(row.needs)
        yield OpenAdvisory(row, affected, refused=exposed and better and row.danger in _GRAVE and not row.accepted)


def _exposed(row: AdvisoryRow, run: EngineRun) -> bool | None:
    """Whether it is in reach as it is run; None if it is not worth a word then."""
    match row.reach:
        case "model":
            return True
        case "network":
            if run.is_local:  # another user of the machine is not a network; code that he runs is worth a word
                return False if row.danger == "critical" else None
            return True
        case "nodes":
            return True if run.nodes > 1 else None
        case "client":
            return bool(row.needs) and row.danger == "critical"  # a flag that gives every client the machine
        case "image":
            return False if run.in_image else None
        case _:
            return None
