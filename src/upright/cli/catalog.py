"""catalog: a kind -> its rows; a row -> every figure of it with grade and source."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from upright.cli.output import Output, output_options, say
from upright.errors import UsageError

if TYPE_CHECKING:
    from upright.catalog.rows.base import Row


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
    from upright.showing.catalog_page import kinds_page, rows_page

    if kind is None:
        kinds = [{"kind": known_kind.name, "about": known_kind.about} for known_kind in catalog.KINDS.values()]
        output.answer(kinds, lambda console: kinds_page(console, kinds))
        output.next("catalog", "list", "boxes")
        return
    matching_rows = [row for row in catalog.rows(kind).values() if match is None or _holds(row, match)]
    output.answer(
        [row.model_dump(mode="json") for row in matching_rows], lambda console: rows_page(console, kind, matching_rows)
    )
    if not matching_rows:
        say(f"no row of the {kind} holds {match!r}")
        output.next("catalog", "list", kind)
        output.no()
    output.next("catalog", "show", kind, matching_rows[0].id)


@command.command(context_settings={"ignore_unknown_options": True})
@click.argument("kind")
@click.argument("name")
@output_options
def show(output: Output, kind: str, name: str) -> None:
    """Show one row: every field, every figure with its grade and source."""
    from upright import catalog
    from upright.showing.catalog_page import row_page

    row = catalog.get(kind, name)
    output.answer(row.model_dump(mode="json"), lambda console: row_page(console, row))
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
    from upright.showing.catalog_page import exported_page
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
    output.answer(index, lambda console: exported_page(console, folder, index))
    output.next("catalog", "list")


def _holds(row: Row, text: str) -> bool:
    return text.lower() in json.dumps(row.model_dump(mode="json"), ensure_ascii=False).lower()
