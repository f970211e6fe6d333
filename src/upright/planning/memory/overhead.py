"""Memory beside weights and cache, by engine, version and GPU architecture, from the catalogue's rows.

The rows are facts in the catalogue (`upright catalog list overheads`), each with a band, a source, and where it was
fitted the pools it was fitted on.
"""

from __future__ import annotations

from functools import cache

from upright.facts import catalog
from upright.facts.catalog import versions
from upright.facts.catalog.rows.memory import OverheadKind, OverheadRow
from upright.facts.records.plan import LedgerLine

# How far a measured figure may be off when the same thing is started again.
RESTART_SPREAD = 0.05


@cache
def overheads(
    engine: str,
    version: str | None,
    *,
    capability: str | None = None,
    draft: bool = False,
    model: str | None = None,
    kinds: frozenset[OverheadKind] = frozenset(),
) -> tuple[OverheadRow, ...]:
    """The rows that apply, at most one a term: the most particular wins. An unknown version takes the newest rows.

    `model` is a row of the catalogue: what was fitted on some models speaks of no others. `kinds` is what it has.
    """
    by_term: dict[str, OverheadRow] = {}
    for row in catalog.rows("overheads").values():
        assert isinstance(row, OverheadRow)
        if row.engine not in ("*", engine) or row.draft not in (None, draft):
            continue
        if (row.models and model not in row.models) or (row.kind is not None and row.kind not in kinds):
            continue
        if version is not None and not versions.in_range(version, row.versions):
            continue
        if row.capability != "*" and (capability is None or not versions.in_range(capability, row.capability)):
            continue
        known = by_term.get(row.term)
        if known is None or _particular(row) >= _particular(known):
            by_term[row.term] = row
    return tuple(by_term.values())


def overhead(
    engine: str, version: str | None, term: str, *, capability: str | None = None, draft: bool = False
) -> OverheadRow | None:
    rows = overheads(engine, version, capability=capability, draft=draft)
    return next((row for row in rows if row.term == term), None)


def driver_bytes() -> int:
    """What the driver keeps of the total that nvidia-smi shows: CUDA's total is smaller by this."""
    row = overhead("*", None, "driver")
    assert row is not None
    return row.bytes("best")


def overhead_line(row: OverheadRow, device: str, term: str | None = None) -> LedgerLine:
    """The row as a line of the ledger."""
    return LedgerLine(
        device=device,
        term=term or row.term,
        bytes=row.bytes("best"),
        low_bytes=row.bytes("low"),
        high_bytes=row.bytes("high"),
        basis=row.basis,
        why=f"{row.why} (overheads/{row.id})",
    )


def share_line(row: OverheadRow, device: str, whole_bytes: int) -> LedgerLine:
    """The row's share of so many bytes as a line of the ledger."""
    assert row.share is not None
    low, best, high = (int(whole_bytes * share) for share in (row.share.low, row.share.best, row.share.high))
    line = overhead_line(row, device)
    return line.model_copy(update={"bytes": best, "low_bytes": low, "high_bytes": high})


def _particular(row: OverheadRow) -> tuple[bool, ...]:
    silicon, drafted = row.capability != "*", row.draft is not None
    return (row.engine != "*", bool(row.models), row.kind is not None, silicon, drafted, row.versions != "*")
