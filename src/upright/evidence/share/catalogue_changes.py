"""Rows that were taken + rows that are offered -> what changes, row by row and field by field."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

from upright.base.bounds.files import file_bytes
from upright.evidence.share.catalogue_gate import ours
from upright.facts import store
from upright.facts.catalog.loader import rows
from upright.facts.catalog.rows.base import Row
from upright.facts.records.base import Part

RowsByKind = Mapping[str, tuple[Row, ...]]
_NOT_COMPARED = {"owner", "file"}


class FieldChange(Part):
    """One field of a row."""

    field: str
    """Its path: `memory_gb.value`."""
    before: Any = None
    """None if it was not there."""
    after: Any = None
    """None if it is not there any more."""


class RowChange(Part):
    """One row that the update touches."""

    kind: str
    """Of the catalogue: gpus, models, ..."""
    id: str
    """The row's name."""
    change: Literal["new", "changed", "removed"]
    """Against what is read now."""
    fields: tuple[FieldChange, ...] = ()
    """What differs, for a row that changed."""
    over: str | None = None
    """Whose row it is laid over: upright, package, or yours, which stays; None for one of its own."""


def changes(taken: RowsByKind, offered: RowsByKind) -> tuple[RowChange, ...]:
    """By kind and id; rows that stay as they are say nothing."""
    return tuple(
        change
        for kind in sorted({*taken, *offered})
        for change in _of_kind(kind, taken.get(kind, ()), offered.get(kind, ()))
    )


def _of_kind(kind: str, taken: Sequence[Row], offered: Sequence[Row]) -> Iterator[RowChange]:
    before, after = ({row.id: row for row in rows_of} for rows_of in (taken, offered))
    others = {row.id: row for row in rows(kind).values() if row.owner != "catalogue"}
    others = {**others, **{row.id: row for row in ours(kind).values() if row.id not in others}}
    for id_ in sorted({*before, *after}):
        if (change := _change(kind, id_, before.get(id_), after.get(id_), others.get(id_))) is not None:
            yield change


def _change(kind: str, id_: str, before: Row | None, after: Row | None, other: Row | None) -> RowChange | None:
    over = other.owner if other is not None else None
    if after is None:
        return RowChange(kind=kind, id=id_, change="removed", over=over)
    known = before or other
    if known is None:
        return RowChange(kind=kind, id=id_, change="new")
    fields = tuple(_differences(_plain(known), _plain(after)))
    return RowChange(kind=kind, id=id_, change="changed", fields=fields, over=over) if fields else None


def _plain(row: Row) -> dict[str, Any]:
    return row.model_dump(mode="json", exclude=_NOT_COMPARED, exclude_none=True)


def _differences(before: Any, after: Any, path: str = "") -> Iterator[FieldChange]:
    if before == after:
        return
    if isinstance(before, dict) and isinstance(after, dict):
        for name in sorted({*before, *after}):
            yield from _differences(before.get(name), after.get(name), f"{path}.{name}" if path else name)
    else:
        yield FieldChange(field=path, before=before, after=after)


def deployments_on(touched: Iterable[RowChange]) -> tuple[str, ...]:
    """Deployments whose plan or box names a row that is touched: their figures were made from it."""
    names = [f"{change.kind}/{change.id}".encode() for change in touched]
    models = [f'"{change.id}"'.encode() for change in touched if change.kind == "models"]
    standing = []
    for directory in store.deployments():
        paths = [directory.path / f"{file}.json" for file in ("plan", "box")]
        texts = [file_bytes(path, own=True) for path in paths if path.is_file()]
        if any(name in text for text in texts for name in (*names, *models)):
            standing.append(directory.name)
    return tuple(standing)
