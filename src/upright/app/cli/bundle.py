"""`upright share bundle`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from upright.app.cli.options import deployment_argument
from upright.app.cli.output import Output, say

if TYPE_CHECKING:
    from upright.evidence.share.making_statements import SharedStatement

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
@click.option("--send", is_flag=True, help="Send the signed statement as a pull request, by your git, after asking.")
@click.option("--to", metavar="ADDRESS", envvar="UPRIGHT_EVIDENCE", show_envvar=True,
              help="The repository that takes it.  [default: the project's own]")  # fmt: skip
@click.option("--yes", is_flag=True, help="Send it without asking.")
@click.option("--dry-run", is_flag=True, help="Say what would be packed, and stop.")
@click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON on stdout.")
def command(
    deployment: str | None, path: Path | None, bundle_file: Path | None, statement: bool, sign: Path | None,
    show: bool, send: bool, to: str | None, yes: bool, dry_run: bool, as_json: bool,
) -> None:  # fmt: skip
    """Pack a deployment for somebody else: records, logs, evidence, redacted.

    Keys, tokens, home, user and host names and public addresses are taken out; what was taken out is listed. Reading a
    bundle checks every digest and writes nothing to the disk. With --statement it is a claim for everybody: the recipe,
    every headline with its raw samples, the kind of box; `upright share verify` checks it. With --send it is shown in
    full, and goes to the repository that takes such evidence as a branch of your own git. Exit code 1 if it did not.
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
    if statement or sign or show or send:
        from upright.evidence.share.making_statements import share

        shared = share(directory, path, key=sign, write=not (show or dry_run))
        if show:
            click.echo(shared.content.decode(), nl=False)
            return
        from upright.app.pages.verify_page import shared_page

        if send and not dry_run:
            _send(output, shared, to, yes=yes)
            return
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


def _send(output: Output, shared: SharedStatement, to: str | None, *, yes: bool) -> None:
    """Everything that would leave is on the screen before it does."""
    from upright.app.pages.verify_page import sent_page, shared_page
    from upright.base.errors import UsageError
    from upright.evidence.share.sending import ADDRESS_VARIABLE, in_full, parcel, send, stated_address

    Output(False, None).answer({}, lambda console: None if output.as_json else shared_page(console, shared, sends=True))
    address = to or stated_address()
    if address is None:
        output.answer({**shared.told(), "sent": None})
        say(f"nothing was sent: the project states no address yet; name one by --to, or {ADDRESS_VARIABLE}")
        output.next("bundle", "--sign", "KEY", "--send", "--to", "ADDRESS")
        output.no()
        return
    ready = parcel(shared, address)
    whole = in_full(shared.content)
    if sys.stdout.isatty() and not yes:
        click.echo_via_pager(whole)
    else:
        click.echo(whole, err=output.as_json)
    say(f"to {ready.address}, branch {ready.branch}, by {ready.author}: whoever reads it there sees that name")
    if not yes:
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            raise UsageError("it would leave this machine", hint="read it above, then say --yes")
        click.confirm("Send it?", abort=True, err=True)
    sent = send(ready)
    output.answer({**shared.told(), "sent": sent.model_dump()}, lambda console: sent_page(console, sent))
    output.next("verify", str(shared.path))
