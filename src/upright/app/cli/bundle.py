"""`upright share bundle`."""

from __future__ import annotations

from pathlib import Path

import click

from upright.app.cli.options import deployment_argument
from upright.app.cli.output import Output

_FILE = click.Path(path_type=Path, dir_okay=False)


@click.command()
@deployment_argument
@click.option("-o", "--output", "path", type=_FILE, metavar="FILE",
              help="Where to write it.  [default: NAME.bundle.tar.gz, NAME.bundle.json]")  # fmt: skip
@click.option("--read", "bundle_file", type=_FILE, metavar="FILE", help="Look into a bundle instead of making one.")
@click.option(
    "--statement", is_flag=True, help="Write a claim that anybody can verify and replay: no logs, no answers."
)
@click.option("--sign", type=click.Path(path_type=Path), metavar="KEY", help="Sign the statement with this SSH key.")
@click.option("--show", is_flag=True, help="Print the statement's exact bytes, and write nothing.")
@click.option("--dry-run", is_flag=True, help="Say what would be packed, and stop.")
@click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON on stdout.")
def command(
    deployment: str | None, path: Path | None, bundle_file: Path | None, statement: bool, sign: Path | None,
    show: bool, dry_run: bool, as_json: bool,
) -> None:  # fmt: skip
    """Pack a deployment for somebody else: records, logs, evidence, redacted.

    Keys, tokens, home, user and host names and public addresses are taken out; what was taken out is listed. Reading a
    bundle checks every digest and writes nothing to the disk. With --statement it is a claim for everybody: the recipe,
    every headline with its raw samples, the kind of box; `upright share verify` checks it.
    """
    from upright.app.pages.bundle_page import manifest_page, unpacked_json, unpacked_page, written_page
    from upright.base.errors import UsageError
    from upright.evidence.bundle import bundle, bundle_contents, read_bundle
    from upright.facts import store

    output = Output(as_json, None)
    if bundle_file is not None:
        if deployment is not None or path is not None:
            raise UsageError("--read looks into a bundle and packs nothing", hint="upright share bundle --read FILE")
        unpacked = read_bundle(bundle_file)
        output.answer(unpacked_json(unpacked), lambda console: unpacked_page(console, unpacked))
        return
    directory = store.find(deployment)
    if statement or sign or show:
        from upright.evidence.share.making_statements import share

        shared = share(directory, path, key=sign, write=not (show or dry_run))
        if show:
            click.echo(shared.content.decode(), nl=False)
            return
        from upright.app.pages.verify_page import shared_page

        output.answer(shared.told(), lambda console: shared_page(console, shared))
        output.next(*(("bundle", directory.name, "--statement", "--show") if dry_run else ("verify", str(shared.path))))
        return
    if dry_run:
        manifest, _ = bundle_contents(directory)
        output.answer(manifest.model_dump(mode="json"), lambda console: manifest_page(console, manifest))
        output.next("bundle", directory.name)
        return
    made = bundle(directory, path or Path(f"{directory.name}.bundle.tar.gz"))
    output.answer(made.model_dump(mode="json"), lambda console: written_page(console, made))
    output.next("bundle", "--read", made.path)
