"""A bundle -> the page that a person reads: what is in it, what was taken out."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

    from upright.evidence.bundle import Manifest, Unpacked, WrittenBundle


def written_page(console: Console, made: WrittenBundle) -> None:
    from upright.base.units import format_size

    console.print(f"wrote {made.path}, {format_size(made.size_bytes)}", soft_wrap=True, markup=False)
    manifest_page(console, made.manifest)


def manifest_page(console: Console, manifest: Manifest) -> None:
    from upright.base.terminal.wrapping import print_wrapped
    from upright.base.units import format_size

    for file in manifest.files:
        cut = f" of {format_size(file.original_bytes)}" if file.original_bytes > 2 * file.size_bytes else ""
        console.print(f"  {file.name:<24} {format_size(file.size_bytes):>8}{cut}", markup=False, soft_wrap=True)
    print_wrapped(console, "taken out:" if manifest.redactions else "nothing had to be taken out", 2)
    for redaction in manifest.redactions:
        print_wrapped(console, f"{redaction.what}, {redaction.times} times", 4)
    if manifest.left_out:
        print_wrapped(console, f"left out: {', '.join(manifest.left_out)}", 2)


def unpacked_json(found: Unpacked) -> dict[str, object]:
    return {
        "manifest": found.manifest.model_dump(mode="json"),
        "records": {name: record.to_dict() for name, record in found.records.items()},
        "observations": [each.model_dump(mode="json") for each in found.observations],
        "texts": found.texts,
    }


def unpacked_page(console: Console, found: Unpacked) -> None:
    from upright.facts.records.deployment import Deployment

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
    manifest_page(console, manifest)
