"""Page of a catalogue update, to decide by; every text in it is another's."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from upright.base.untrusted_text import on_one_line

if TYPE_CHECKING:
    from rich.console import Console

    from upright.evidence.share.catalogue_building import BuiltCatalogue
    from upright.evidence.share.catalogue_changes import FieldChange, RowChange
    from upright.evidence.share.catalogue_update import CatalogueOffer

_MOST_ROWS = 60
_MOST_FIELDS = 8
_OVER = {"upright": "a row of ours", "package": "a row of an engine's package", "user": "your own row, which stays"}


def offer_page(console: Console, offer: CatalogueOffer) -> None:
    was = f"version {offer.present.version} is taken" if offer.present else "nothing is taken yet"
    counts = {kind: sum(change.change == kind for change in offer.changes) for kind in ("new", "changed", "removed")}
    _line(console, f"{offer.catalogue.name}: version {offer.head.version} of {offer.head.at[:16]}, {was}")
    if not offer.changes:
        _line(console, "  no row changes")
    else:
        _line(console, f"  rows: {', '.join(f'{count} {kind}' for kind, count in counts.items() if count)}")
    for change in offer.changes[:_MOST_ROWS]:
        _row(console, change)
    if len(offer.changes) > _MOST_ROWS:
        _line(console, f"  and {len(offer.changes) - _MOST_ROWS} more rows: --json has all of them")
    for plan in offer.plans:
        _line(console, f"  plan of {plan.model} on {plan.box}: {plan.before} -> {plan.after}")
    if offer.deployments:
        _line(console, f"  deployments planned with them: {', '.join(offer.deployments)}")


def _row(console: Console, change: RowChange) -> None:
    over = f" (over {_OVER[change.over]})" if change.over in _OVER and change.change != "removed" else ""
    again = ": ours is read again" if change.change == "removed" and change.over == "upright" else ""
    _line(console, f"  {change.change:<8}{change.kind}/{on_one_line(change.id, 80)}{over}{again}")
    for field in change.fields[:_MOST_FIELDS]:
        _line(console, f"    {on_one_line(field.field, 60)}: {_values(field)}")
    if len(change.fields) > _MOST_FIELDS:
        _line(console, f"    and {len(change.fields) - _MOST_FIELDS} more fields: --json has all of them")


def _values(field: FieldChange) -> str:
    return " -> ".join(
        "nothing" if told is None else on_one_line(told if isinstance(told, str) else json.dumps(told), 90)
        for told in (field.before, field.after)
    )


def built_catalogue_page(console: Console, built: BuiltCatalogue) -> None:
    rows = ", ".join(f"{count} {kind}" for kind, count in built.kinds.items())
    _line(console, f"{built.name}: version {built.version}, signed: {rows}")


def _line(console: Console, text: str) -> None:
    console.print(text, markup=False, highlight=False, soft_wrap=True)
