"""catalog: a kind -> its rows; a row -> every figure of it with grade and source."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from upright import units
from upright.cli.output import Output, output_options, say
from upright.errors import UsageError

if TYPE_CHECKING:
    from rich.console import Console

    from upright.catalog.rows.base import Row

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
    "usages": ("name",),
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
HEAD = ("id", "owner", "file", "grade", "sources")


@click.group(name="catalog")
def command() -> None:
    """Look up facts: GPUs, boxes, models, failures, flags, measurements."""


@command.command(name="list")
@click.argument("kind", required=False)
@click.option("--match", metavar="TEXT", help="Only rows that hold this text somewhere.")
@output_options
def list_(output: Output, kind: str | None, match: str | None) -> None:
    """List the rows of KIND, or the kinds."""
    from upright import catalog

    if kind is None:
        kinds = [{"kind": each.name, "about": each.about} for each in catalog.KINDS.values()]
        output.answer(kinds, lambda console: _kinds(console, kinds))
        output.next("catalog", "list", "boxes")
        return
    found = [row for row in catalog.rows(kind).values() if match is None or _holds(row, match)]
    output.answer([row.model_dump(mode="json") for row in found], lambda console: _rows(console, kind, found))
    if not found:
        say(f"no row of the {kind} holds {match!r}")
        output.next("catalog", "list", kind)
        output.no()
    output.next("catalog", "show", kind, found[0].id)


@command.command(context_settings={"ignore_unknown_options": True})
@click.argument("kind")
@click.argument("name")
@output_options
def show(output: Output, kind: str, name: str) -> None:
    """Show one row: every field, every figure with its grade and source."""
    from upright import catalog

    row = catalog.get(kind, name)
    output.answer(row.model_dump(mode="json"), lambda console: _row(console, row))
    output.next("explain", row.id)


@command.command()
@click.option("-o", "--output", "folder", type=click.Path(path_type=Path, file_okay=False), default="catalog",
              show_default=True, help="Write the files into this folder.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print the index as JSON on stdout.")
def export(folder: Path, as_json: bool) -> None:
    """Write the whole catalogue as files for any web server.

    Files are named by their content and never change; only index.json does. Your own rows are in them, too.
    """
    from upright import __version__
    from upright.catalog.exporting import INDEX, exported
    from upright.store import write_atomically

    files = exported(__version__)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():  # the index comes last: whoever reads it finds what it names
            if name == INDEX or not (folder / name).exists():
                write_atomically(folder / name, content, mode=0o644)
    except OSError as error:
        raise UsageError(f"cannot write {folder}: {error.strerror}") from None
    output = Output(as_json, None)
    index = json.loads(files[INDEX])
    output.answer(index, lambda console: _exported(console, folder, index))
    output.next("catalog", "list")


def _exported(console: Console, folder: Path, index: dict[str, Any]) -> None:
    kinds = index["kinds"].values()
    rows, size = sum(kind["rows"] for kind in kinds), sum(kind["bytes"] for kind in kinds)
    console.print(f"wrote {len(kinds)} kinds, {rows:,} rows, {units.size(size)} into {folder}", markup=False)


def _holds(row: Row, text: str) -> bool:
    return text.lower() in json.dumps(row.model_dump(mode="json"), ensure_ascii=False).lower()


def _kinds(console: Console, kinds: list[dict[str, str]]) -> None:
    table = _grid()
    for each in kinds:
        table.add_row(each["kind"], each["about"])
    console.print(table)


def _rows(console: Console, kind: str, found: list[Row]) -> None:
    from rich.text import Text

    columns = COLUMNS.get(kind, ())
    table = _grid(len(columns) + 1)
    table.add_row(*(Text(name, style="dim") for name in ("id", *(HEADINGS.get(name, name) for name in columns))))
    for row in found:
        mark = " *" if row.owner == "user" else ""
        table.add_row(Text(f"{row.id}{mark}"), *(Text(_cell(getattr(row, name, None))) for name in columns))
    console.print(table)
    if any(row.owner == "user" for row in found):
        console.print("\n* yours: from the catalogue directory in your upright home", markup=False)


def _row(console: Console, row: Row) -> None:
    from rich.text import Text

    from upright.catalog.rows.base import Fact
    from upright.records.fields import field_docs

    docs = field_docs(type(row))
    console.print(Text.assemble((row.id, "bold"), f"  {row.file}, {row.owner}, grade {row.grade}"))
    console.print()
    shown = [name for name in type(row).model_fields if name not in HEAD and getattr(row, name) not in (None, (), {})]
    left = max((len(name) for name in shown), default=0) + 2
    lines: list[tuple[str, str]] = []
    for name in shown:
        value = getattr(row, name)
        lines.append((_hanging(name.ljust(left), _cell(value), console.width), ""))
        notes = (value.note, f"{value.source} (grade {value.grade})") if isinstance(value, Fact) else ()
        lines += [(_hanging(" " * left, line, console.width), "dim") for line in (docs.get(name), *notes) if line]
    lines += [("", ""), *((_hanging("source  ", source, console.width), "dim") for source in row.sources)]
    console.print(Text("\n").join(Text(words, style=style) for words, style in lines))


def _hanging(label: str, words: str, width: int) -> str:
    """The label, then the words wrapped beside it; a word too long for the line is broken."""
    lines = [part for line in words.splitlines() for part in textwrap.wrap(line, max(20, width - len(label))) or [""]]
    return "\n".join(f"{label if number == 0 else ' ' * len(label)}{line}" for number, line in enumerate(lines or [""]))


def _cell(value: Any) -> str:
    from upright.catalog.rows.base import Fact
    from upright.records.base import Part

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
