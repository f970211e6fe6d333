"""`upright catalog`: rows of the catalogue, with the grade and source of every figure."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from upright.app.cli.lazy import FullSummaryGroup
from upright.app.cli.output import Output, output_options, say

if TYPE_CHECKING:
    from upright.facts.catalog.rows.base import Row

_FILE = click.Path(path_type=Path, dir_okay=False)


@click.group(name="catalog", cls=FullSummaryGroup)
def command() -> None:
    """Look up facts: GPUs, boxes, models, failures, flags, measurements."""


@command.command(name="list")
@click.argument("kind", required=False)
@click.option("--match", metavar="TEXT", help="Only rows that hold this text somewhere.")
@output_options
def list_(output: Output, kind: str | None, match: str | None) -> None:
    """List the rows of KIND, or the kinds."""
    from upright.app.pages.catalog_page import kinds_page, rows_page
    from upright.facts import catalog

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
    from upright.app.pages.catalog_page import row_page
    from upright.facts import catalog

    row = catalog.box(name) if kind == "boxes" else catalog.get(kind, name)
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
    from upright.app.pages.catalog_page import exported_page
    from upright.evidence.share.catalogue_building import export_catalogue

    index = export_catalogue(folder, __version__)
    output = Output(as_json, None)
    output.answer(index, lambda console: exported_page(console, folder, index))
    output.next("catalog", "list")


@command.command()
@click.argument("name")
@click.argument("url")
@click.option("--key", type=_FILE, required=True, metavar="FILE", help="Public keys that its head must be signed with.")
@output_options
def add(name: str, url: str, key: Path, output: Output) -> None:
    """Pin a catalogue of others: its address, and the keys that sign it. Nothing of it is taken yet."""
    from upright.evidence.share.catalogue_source import pin_catalogue

    pinned = pin_catalogue(name, url, key)
    output.answer(pinned.model_dump(mode="json"), lambda console: console.print(f"{name}: {url}", markup=False))
    output.next("catalog", "update", name)


@command.command()
@click.argument("name", required=False)
@click.option("-y", "--yes", is_flag=True, help="Take it without asking.")
@click.option("--offline", is_flag=True, help="Only what was read before.")
@output_options
def update(name: str | None, yes: bool, offline: bool, output: Output) -> None:
    """Show what the newest version of a catalogue changes, and take it if you say so.

    Its head must be signed by a pinned key and be no older than what was seen. Rows are facts: none becomes a command,
    and kinds that decide what is run come with a release only. Exit code 1 if there is something, and it is not taken.
    """
    from upright.app.pages.catalogue_update_page import offer_page
    from upright.evidence.share.catalogue_update import offer_of, take

    offer = offer_of(name, offline=offline)
    asks = not (yes or offer.is_taken or output.as_json) and sys.stdin.isatty() and sys.stderr.isatty()
    if asks:
        output.answer(offer.told(taken=False), lambda console: offer_page(console, offer))
        yes = click.confirm(f"Take version {offer.head.version} of {offer.catalogue.name}?", err=True)
    if yes and not offer.is_taken:
        take(offer)
    if not asks:
        output.answer(offer.told(taken=yes or offer.is_taken), lambda console: offer_page(console, offer))
    if not (yes or offer.is_taken):
        say("not taken")
        output.next("catalog", "update", offer.catalogue.name, "--yes")
        output.no()
    say(f"{offer.catalogue.name}: version {offer.head.version} is taken")
    output.next("recommend")


@command.command()
@click.argument("name", required=False)
@output_options
def rollback(name: str | None, output: Output) -> None:
    """Go back to the version of a catalogue that was taken before; before the first, nothing of it is read."""
    from upright.evidence.share.catalogue_update import roll_back

    catalogue, left, version = roll_back(name)
    told = {"catalogue": catalogue.name, "left": left, "version": version}
    now = f"version {version} is read again" if version else "none of its rows is read any more"
    output.answer(told, lambda console: console.print(f"{catalogue.name}: {now}", markup=False))
    output.next("recommend")


@command.command()
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@click.argument("rows", type=click.Path(path_type=Path, file_okay=False, exists=True))
@click.option("--name", required=True, help="What the catalogue is called; it stays so.")
@click.option("--key", type=click.Path(path_type=Path), required=True, metavar="KEY", help="Sign with this SSH key.")
@output_options
def build(folder: Path, rows: Path, name: str, key: Path, output: Output) -> None:
    """Make a signed catalogue in FOLDER from ROWS (KIND.yaml, or KIND/*.yaml): for its keeper."""
    from upright.app.pages.catalogue_update_page import built_catalogue_page
    from upright.evidence.share.catalogue_building import build_catalogue

    built = build_catalogue(folder, rows, name=name, key=key)
    output.answer(built.model_dump(mode="json"), lambda console: built_catalogue_page(console, built))
    output.next("catalog", "add", name, str(folder), "--key", f"{key}.pub")


def _holds(row: Row, text: str) -> bool:
    return text.lower() in json.dumps(row.model_dump(mode="json"), ensure_ascii=False).lower()
