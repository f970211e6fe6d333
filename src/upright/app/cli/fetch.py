"""`upright fetch`."""

from __future__ import annotations

from pathlib import Path

import click

from upright.app.cli.options import refuse_empty, typed_words
from upright.app.cli.output import Output, say


@click.command()
@click.argument("model", callback=refuse_empty)
@click.option(
    "-o",
    "--output",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Into this folder, as plain files.  [default: the hub cache, which engines share]",
)
@click.option("--connections", type=click.IntRange(1, 32), default=8, show_default=True, help="Requests at once.")
@click.option("--verify", is_flag=True, help="Also hash what is here already.")
@click.option("--dry-run", is_flag=True, help="Say what would be fetched, and stop.")
@click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON on stdout.")
def command(model: str, folder: Path | None, connections: int, verify: bool, dry_run: bool, as_json: bool) -> None:
    """Bring exactly the files that an engine needs, verified.

    MODEL is a repository (owner/name, owner/name@revision), a quant of a GGUF repository (owner/name:IQ3_K), or a name
    of the catalogue. Safe to interrupt: the next fetch goes on where this one ended.
    """
    from upright.app.pages.fetch_page import fetched_page, need_page
    from upright.app.pages.fetch_progress import fetch_progress_bar
    from upright.serving.fetch import fetch, fetch_need

    output = Output(as_json, None)
    wanted = fetch_need(model, folder=folder)
    if dry_run or wanted.room.lacking_bytes:
        output.answer(wanted.model_dump(mode="json"), lambda console: need_page(console, wanted))
        if wanted.room.lacking_bytes:
            output.no()
        output.next("fetch", model, *typed_words("folder", "connections", "verify"))
        return
    try:
        with fetch_progress_bar(model) as on_progress:
            done = fetch(model, folder=folder, connections=connections, verify=verify, on_progress=on_progress)
    except KeyboardInterrupt:
        say("stopped: what came is kept, and the next fetch goes on from there")
        output.next("fetch", model, *typed_words("folder", "connections", "verify"))
        raise click.exceptions.Exit(130) from None
    output.answer({**done.model_dump(mode="json"), "path": done.path}, lambda console: fetched_page(console, done))
    output.next("up", model if folder is None else done.path)
