"""Pages of patches, and of the kernels before and after one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from upright.base.terminal.wrapping import print_wrapped
from upright.facts.records.kernel import KernelVerdict
from upright.proof.kernels.patching import PatchMatch

if TYPE_CHECKING:
    from rich.console import Console


def patch_json(patch: PatchMatch, **more: str | bool | Sequence[KernelVerdict]) -> dict[str, Any]:
    """The patch, and what was done or proved beside it."""
    row = patch.row
    return {
        "patch": row.id,
        "name": row.name,
        "engine": row.engine,
        "engine_version": patch.source.version,
        "state": patch.state,
        "why": patch.why,
        "file": str(patch.file) if patch.file else None,
        "versions": row.versions,
        "expires": row.expires,
        "sources": list(row.sources),
    } | {name: told if isinstance(told, str | bool) else _dumped(told) for name, told in more.items()}


def upstream_text(
    patch: PatchMatch, before: Sequence[KernelVerdict], after: Sequence[KernelVerdict], change: str
) -> str:
    """Markdown for the engine's makers: what, why, bytes before and after, which GPUs, how it was tried, the diff."""
    row, version = patch.row, patch.source.version or "of unknown version"
    figures = [
        f"| {old.target} | `{old.kernel}` | {old.launch} "
        f"| {old.needed_bytes:,} | {new.needed_bytes:,} | {old.limit_bytes:,} |"
        for old, new in zip(before, after, strict=True)
        if old.needed_bytes is not None and new.needed_bytes is not None and old.limit_bytes is not None
    ]
    parts = [
        f"# {row.engine}: {row.name}",
        "### What happens",
        f"{row.why} (found in {row.engine} {version}, `{row.files[0].path}`; the same file in {row.versions})",
        "### Shared memory of a block, before and after",
        "\n".join(["| GPU | kernel | launch | before | after | limit |", "|---|---|---|---:|---:|---:|", *figures]),
        "### How it was tried",
        "Compiled ahead of time with Triton for each GPU above, without one. The launch is what the engine's "
        f"own launcher asks for: `upright tools kernels patch apply {row.id} --engine {row.engine} "
        f"--engine-version {version} --dry-run`.",
        "Speed and answers on a GPU are not shown by this. FILL IN what you saw.",
        "### The change",
        f"```diff\n{change.rstrip()}\n```",
    ]
    related = [source for source in row.sources if "https://" in source]
    if related:
        parts += ["### Related", "\n".join(f"- {source}" for source in related)]
    return "\n\n".join(parts) + "\n"


def _dumped(verdicts: Sequence[KernelVerdict]) -> list[dict[str, Any]]:
    return [verdict.model_dump(mode="json") for verdict in verdicts]


def patches_page(console: Console, patches: Sequence[PatchMatch]) -> None:
    for patch in patches:
        print_wrapped(console, f"{patch.row.id}: {patch.state} ({patch.why})")
        print_wrapped(console, f"{patch.row.name}, for {patch.row.engine} {patch.row.versions}", 2)
        print_wrapped(console, patch.row.why, 2)
    if not patches:
        console.print("no patch for this engine")


def verified_page(console: Console, patch: PatchMatch, after: Sequence[KernelVerdict], verified: bool) -> None:
    print_wrapped(console, f"{patch.row.id}: {'verified' if verified else patch.state} ({patch.why})")
    for verdict in after:
        print_wrapped(console, f"{verdict.target} {verdict.kernel}: {verdict.why}", 2)


def proof_lines(before: Sequence[KernelVerdict], after: Sequence[KernelVerdict]) -> Iterator[str]:
    """Of the kernels that did not fit: what they took, and what they take now."""
    for old, new in zip(before, after, strict=True):
        if old.verdict != "fits":
            needed = f"{old.needed_bytes:,} -> {new.needed_bytes:,} of {old.limit_bytes:,} bytes"
            yield f"proof {old.target} {old.kernel}: {needed}"
