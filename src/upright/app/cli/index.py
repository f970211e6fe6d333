"""`upright share index`: search evidence of others, and keep an index of it."""

from __future__ import annotations

from pathlib import Path

import click

from upright.app.cli.lazy import FullSummaryGroup
from upright.app.cli.output import Output, output_options

_FILE = click.Path(path_type=Path, dir_okay=False)
_FOLDER = click.Path(path_type=Path, file_okay=False)


@click.group(name="index", cls=FullSummaryGroup)
def command() -> None:
    """Search evidence that others shared, and keep an index of it: static files, signed, no server."""


@command.command()
@click.argument("model", required=False)
@click.option("--gpu", help="The GPU, as the catalogue or the driver names it.  [default: every box that is here]")
@click.option("--gpus", type=click.IntRange(0), help="How many; 0 for a box without.  [default: 1 with --gpu]")
@click.option("--index", "name", help="Only this index.  [default: all that were added, and the shipped one]")
@click.option("--offline", is_flag=True, help="Only what was read before.")
@output_options
def search(
    model: str | None, gpu: str | None, gpus: int | None, name: str | None, offline: bool, output: Output
) -> None:
    """Find bundles of a model on a kind of box: three small files are read, and verified before they are shown.

    Without a box, or without a model, it shows what is here: published reports as claims, and what was searched before.
    """
    from upright.app.pages.index_page import search_page
    from upright.evidence.share.index_requests import search_indexes

    answers = search_indexes(model, gpu, gpus, name, offline=offline)
    for fault in answers.faults:
        click.echo(f"not shown: {fault}", err=True)
    output.answer([answer.told() for answer in answers.indexed], lambda console: search_page(console, answers.indexed))
    if not (pointers := [pointer for answer in answers.indexed for pointer in answer.pointers]):
        output.no()
    output.next("index", "fetch", pointers[0].identity)


@command.command()
@click.argument("identity")
@output_options
def show(identity: str, output: Output) -> None:
    """Show what is known of a bundle that was searched before, by the beginning of its identity."""
    from upright.app.pages.index_page import pointer_page
    from upright.evidence.share.index_requests import known_bundle

    pointer = known_bundle(identity).pointer
    output.answer(pointer.model_dump(mode="json"), lambda console: pointer_page(console, pointer))
    output.next("index", "fetch", pointer.identity)


@command.command()
@click.argument("identity")
@output_options
def fetch(identity: str, output: Output) -> None:
    """Bring a bundle from where its author keeps it, hold it against its identity, and verify it."""
    from upright.app.pages.verify_page import verification_page
    from upright.evidence.share.index_requests import fetch_known_bundle

    path, verification = fetch_known_bundle(identity)
    output.answer(verification.model_dump(mode="json"), lambda console: verification_page(console, verification))
    output.next("verify", str(path))
    if verification.level == "broken":
        output.no()


@command.command()
@click.argument("name")
@click.argument("url")
@click.option("--key", type=_FILE, metavar="FILE", help="Public keys that its head must be signed with.")
@click.option("--learn", is_flag=True, help="Let plan and recommend say what its bundles measured on such a box.")
@output_options
def add(name: str, url: str, key: Path | None, learn: bool, output: Output) -> None:
    """Read an index too: pin its address and the keys that sign it."""
    from upright.evidence.share.index_requests import pin_named_index

    index = pin_named_index(name, url, key, learn=learn)
    output.answer(index.model_dump(mode="json"), lambda console: console.print(f"{name}: {url}", markup=False))
    output.next("index", "search", "MODEL", "--index", name)


@command.command()
@click.argument("bundle", type=_FILE)
@click.option("--url", required=True, help="Where its author keeps it.")
@output_options
def point(bundle: Path, url: str, output: Output) -> None:
    """Verify a bundle and print the pointer to it: one line for a pull request."""
    from upright.evidence.share.index_requests import make_pointer

    pointer, text = make_pointer(bundle, url)
    output.answer(pointer.model_dump(mode="json"), lambda console: console.print(text, soft_wrap=True, markup=False))


@command.command()
@click.argument("pointers", type=_FILE, nargs=-1, required=True)
@click.option("--index-url", metavar="URL", help="Where the index is served: its own host may keep bundles, too.")
@output_options
def check(pointers: tuple[Path, ...], index_url: str | None, output: Output) -> None:
    """Fetch and verify the bundle of each new pointer, and execute nothing: for a keeper's CI.

    Exit code 1 if one is refused.
    """
    from upright.app.pages.index_page import checked_page
    from upright.evidence.share.index_checking import checked_pointers

    checked = checked_pointers(pointers, index_url)
    output.answer([entry.model_dump(mode="json") for entry in checked], lambda console: checked_page(console, checked))
    if any(entry.refused for entry in checked):
        output.no()
    output.next("index", "build", "FOLDER", *map(str, pointers))


@command.command()
@click.argument("folder", type=_FOLDER)
@click.argument("pointers", type=_FILE, nargs=-1)
@click.option("--key", type=click.Path(path_type=Path), metavar="KEY", help="Sign the head with this SSH key.")
@click.option("--revoke", metavar="IDENTITY", help="Mark this bundle; its pointer stays and says why.")
@click.option("--reason", help="Why it is revoked.")
@output_options
def build(
    folder: Path, pointers: tuple[Path, ...], key: Path | None, revoke: str | None, reason: str | None, output: Output
) -> None:
    """Put pointers into an index: only their shards, their bins and the head are written anew."""
    from upright.app.pages.index_page import built_page
    from upright.evidence.share.index_requests import build_from_files

    made = build_from_files(folder, pointers, key, {revoke: reason or "revoked"} if revoke else {})
    output.answer(made.model_dump(mode="json"), lambda console: built_page(console, made))
    output.next("index", "add", "NAME", str(folder))
