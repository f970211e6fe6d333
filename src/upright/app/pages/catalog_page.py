"""Rows of the catalogue -> a list of them, or one with every figure, its grade and its source."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

from upright.base import units

if TYPE_CHECKING:
    from rich.console import Console

    from upright.facts.catalog.rows.base import Row

COLUMNS: dict[str, tuple[str, ...]] = {
    "gpus": ("compute_capability", "memory_reported_mib", "memory_bandwidth_gb_s", "name"),
    "boxes": ("name",),
    "links": ("bandwidth_gb_s", "latency_us", "name"),
    "models": ("parameters", "repository"),
    "schemes": ("about",),
    "families": ("title",),
    "architectures": ("about",),
    "layouts": ("engine", "piece", "about"),
    "ggml_types": ("number", "block_elements", "block_bytes", "row_bytes", "ik_only"),
    "compat": ("versions", "status", "feature"),
    "constraints": ("engine", "force", "title"),
    "images": ("engine", "date", "about"),
    "flags": ("means",),
    "failures": ("severity", "title"),
    "advisories": ("danger", "reach", "title"),
    "settings": ("title",),
    "terms": ("about",),
    "measurements": ("model", "gpu_count", "gpu", "engine", "concurrency", "decode_tokens_per_second"),
    "overheads": ("engine", "term", "why"),
    "pools": ("model", "gpu", "tokens"),
    "speeds": ("engine", "capability", "wires", "basis"),
    "transfers": ("step", "of"),
    "prefills": ("engines", "capability", "reached"),
    "usages": ("name",),
    "memory_platforms": ("memory_kind", "channels", "mega_transfers_per_second", "about"),
    "dialects": ("about",),
    "getting": ("engine", "by", "about"),
    "scores": ("model", "benchmark", "score", "by"),
    "patches": ("engine", "versions", "name"),
}
HEADINGS = {
    "compute_capability": "SM",
    "memory_reported_mib": "MiB",
    "memory_bandwidth_gb_s": "GB/s",
    "bandwidth_gb_s": "GB/s",
    "latency_us": "µs",
    "gpu_count": "GPUs",
    "decode_tokens_per_second": "tok/s",
}
_MARKS = {"user": " *", "catalogue": " +"}
HEAD = ("id", "owner", "file", "grade", "sources")


def exported_page(console: Console, folder: Path, index: dict[str, Any]) -> None:
    kinds = index["kinds"].values()
    rows, size = sum(kind["rows"] for kind in kinds), sum(kind["bytes"] for kind in kinds)
    console.print(f"wrote {len(kinds)} kinds, {rows:,} rows, {units.format_size(size)} into {folder}", markup=False)


def kinds_page(console: Console, kinds: list[dict[str, str]]) -> None:
    table = _grid()
    for kind in kinds:
        table.add_row(kind["kind"], kind["about"])
    console.print(table)


def rows_page(console: Console, kind: str, found: list[Row]) -> None:
    from rich.text import Text

    columns = COLUMNS.get(kind, ())
    table = _grid(len(columns) + 1)
    table.add_row(*(Text(name, style="dim") for name in ("id", *(HEADINGS.get(name, name) for name in columns))))
    for row in found:
        mark = _MARKS.get(row.owner, "")
        table.add_row(Text(f"{row.id}{mark}"), *(Text(_cell(getattr(row, name, None))) for name in columns))
    console.print(table)
    if any(row.owner == "user" for row in found):
        console.print("\n* yours: from the catalogue directory in your upright home", markup=False)
    if labels := sorted({row.file for row in found if row.owner == "catalogue"}):
        console.print(f"\n+ row from {', '.join(labels)}", markup=False, highlight=False)


def row_page(console: Console, row: Row) -> None:
    from rich.text import Text

    from upright.facts.catalog.rows.base import Fact
    from upright.facts.records.fields import field_docs

    docs = field_docs(type(row))
    whose = f"row from {row.file}" if row.owner == "catalogue" else ", ".join(filter(None, (row.file, row.owner)))
    console.print(Text.assemble((row.id, "bold"), f"  {whose}, grade {row.grade}"))
    console.print()
    shown = [name for name in type(row).model_fields if name not in HEAD and getattr(row, name) not in (None, (), {})]
    left = max((len(name) for name in shown), default=0) + 2
    lines: list[tuple[str, str]] = []
    for name in shown:
        field_value = getattr(row, name)
        lines.append((_hanging(name.ljust(left), _cell(field_value), console.width), ""))
        notes = (
            (field_value.note, f"{field_value.source} (grade {field_value.grade})")
            if isinstance(field_value, Fact)
            else ()
        )
        lines += [(_hanging(" " * left, line, console.width), "dim") for line in (docs.get(name), *notes) if line]
    lines += [("", ""), *((_hanging("source  ", source, console.width), "dim") for source in row.sources)]
    console.print(Text("\n").join(Text(content, style=style) for content, style in lines))


def _hanging(label: str, words: str, width: int) -> str:
    """The label, then the words wrapped beside it; a word too long for the line is broken."""
    lines = [part for line in words.splitlines() for part in textwrap.wrap(line, max(20, width - len(label))) or [""]]
    return "\n".join(f"{label if number == 0 else ' ' * len(label)}{line}" for number, line in enumerate(lines or [""]))


def _cell(value: Any) -> str:
    from upright.facts.catalog.rows.base import Fact
    from upright.facts.records.base import Part

    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case Fact():
            return "-" if value.value is None else f"{value.value:,}"
        case Part():
            shown = {name: inner for name, inner in value if inner not in (None, (), {})}
            return "; ".join(f"{name} {_cell(inner)}" for name, inner in shown.items())
        case tuple() | list():
            parts = [_cell(inner) for inner in value]
            return "\n".join(parts) if any(len(part) > 20 for part in parts) else ", ".join(parts)
        case dict():
            return "; ".join(f"{name} {_cell(inner)}" for name, inner in value.items())
        case _:
            return str(value)


def _grid(columns: int = 2) -> Any:
    from rich.table import Table

    table = Table.grid(padding=(0, 2, 0, 0))
    for number in range(columns):
        table.add_column(overflow="fold", no_wrap=number == 0)
    return table
