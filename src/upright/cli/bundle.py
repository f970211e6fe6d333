"""`upright bundle`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from upright.cli.options import deployment_argument
from upright.cli.output import Output

if TYPE_CHECKING:
    from rich.console import Console

    from upright.bundling import Manifest, Unpacked


@click.command()
@deployment_argument
@click.option(
    "-o",
    "--output",
    "path",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Where to write it.  [default: NAME.bundle.tar.gz]",
)
@click.option(
    "--read",
    "bundle_file",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Look into a bundle instead of making one.",
)
@click.option("--dry-run", is_flag=True, help="Say what would be packed, and stop.")
@click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON on stdout.")
def command(deployment: str | None, path: Path | None, bundle_file: Path | None, dry_run: bool, as_json: bool) -> None:
    """Pack a deployment for somebody else: records, logs, evidence, redacted.

    Keys, tokens, home, user and host names and public addresses are taken out; what was taken out is listed. Reading a
    bundle checks every digest and writes nothing to the disk.
    """
    from upright import store
    from upright.bundling import bundle, bundle_contents, read_bundle
    from upright.errors import UsageError

    output = Output(as_json, None)
    if bundle_file is not None:
        if deployment is not None or path is not None:
            raise UsageError("--read looks into a bundle and packs nothing", hint="upright bundle --read FILE")
        found = read_bundle(bundle_file)
        output.answer(_told(found), lambda console: _read_page(console, found))
        return
    directory = store.find(deployment)
    if dry_run:
        manifest, _ = bundle_contents(directory)
        output.answer(manifest.model_dump(mode="json"), lambda console: _page(console, manifest))
        output.next("bundle", directory.name)
        return
    made = bundle(directory, path or Path(f"{directory.name}.bundle.tar.gz"))

    def page(console: Console) -> None:
        from upright.units import size

        console.print(f"wrote {made.path}, {size(made.size_bytes)}", soft_wrap=True, markup=False)
        _page(console, made.manifest)

    output.answer(made.model_dump(mode="json"), page)
    output.next("bundle", "--read", made.path)


def _page(console: Console, manifest: Manifest) -> None:
    from upright.terminal.lines import line
    from upright.units import size

    for file in manifest.files:
        cut = f" of {size(file.original_bytes)}" if file.original_bytes > 2 * file.size_bytes else ""
        console.print(f"  {file.name:<24} {size(file.size_bytes):>8}{cut}", markup=False, soft_wrap=True)
    line(console, "taken out:" if manifest.redactions else "nothing had to be taken out", 2)
    for redaction in manifest.redactions:
        line(console, f"{redaction.what}, {redaction.times} times", 4)
    if manifest.left_out:
        line(console, f"left out: {', '.join(manifest.left_out)}", 2)


def _told(found: Unpacked) -> dict[str, object]:
    return {
        "manifest": found.manifest.model_dump(mode="json"),
        "records": {name: record.to_dict() for name, record in found.records.items()},
        "observations": [each.model_dump(mode="json") for each in found.observations],
        "texts": found.texts,
    }


def _read_page(console: Console, found: Unpacked) -> None:
    from upright.records.deployment import Deployment

    manifest = found.manifest
    console.print(f"{manifest.deployment}, packed by upright {manifest.upright}, every digest fits", markup=False)
    deployment = found.records.get("deployment.json")
    if isinstance(deployment, Deployment):
        why = f": {deployment.reason}" if deployment.reason else ""
        version = deployment.engine_version or "(version unknown)"
        console.print(f"  {deployment.engine} {version}, {deployment.state}{why}", markup=False, soft_wrap=True)
    if found.observations:
        passed = sum(each.verdict == "passed" for each in found.observations)
        console.print(f"  {len(found.observations)} observations, {passed} passed", markup=False)
    _page(console, manifest)
