"""patch: a row of the catalogue and an installed engine -> applied, verified or reverted, with proof."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from upright.cli.engine_source import engine_options
from upright.cli.lazy import Whole
from upright.cli.output import Output, output_options, say
from upright.terminal.lines import line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from upright.kernels import Compiler
    from upright.kernels.patching import Found
    from upright.kernels.sources import EngineSource
    from upright.records.kernel import KernelVerdict


@click.group(name="patch", cls=Whole)
def command() -> None:
    """Patch an installed engine, with proof, and take it back."""


@command.command(name="list")
@engine_options(compiles=False)
@output_options
def list_(output: Output, source: EngineSource) -> None:
    """Say which patches there are for this engine, and what each is for its files."""
    from upright.kernels import patching

    patch_statuses = [patching.look(row, source) for row in patching.patches(source.engine)]
    output.answer(
        [_plain(patch_status) for patch_status in patch_statuses], lambda console: _table(console, patch_statuses)
    )


@command.command()
@click.argument("name")
@click.option("--dry-run", is_flag=True, help="Show the diff and the proof, change nothing.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@engine_options()
@output_options
def apply(output: Output, source: EngineSource, compiler: Compiler, name: str, dry_run: bool, yes: bool) -> None:
    """Show the diff, compile before and after, then change the file and keep the original beside it."""
    from upright.errors import EngineError
    from upright.kernels import patching

    patch_status = patching.look(patching.patch(name, source.engine), source)
    before = patching.prove(patch_status, compiler) if patch_status.file else []
    if reason := patching.refusal(patch_status, before):
        answer = {**_plain(patch_status), "refused": reason, "before": _dumped(before)}
        output.answer(answer, lambda console: line(console, f"refused: {reason}"))
        output.no()
    text, change = patching.edited(patch_status), patching.diff(patch_status)
    after = patching.prove(patch_status, compiler, text)
    if any(verdict.verdict != "fits" for verdict in after):
        raise EngineError(f"{name} would not help: {next(v.why for v in after if v.verdict != 'fits')}")
    say(change)
    _say_proof(before, after)
    if not dry_run:
        _ask(patch_status, source, yes)
        patching.write(patch_status, text)
    state = "applicable" if dry_run else "applied"
    answer = {
        **_plain(patch_status),
        "state": state,
        "diff": change,
        "before": _dumped(before),
        "after": _dumped(after),
    }
    done = "would be changed" if dry_run else f"patched; the original is {patch_status.backup.name} beside it"
    output.answer(answer, lambda console: line(console, f"{patch_status.file} {done}"))
    if not dry_run:
        say("an engine that is running keeps its old kernels until it is started again")
    output.next("patch", "apply" if dry_run else "verify", name, *_words(source))


@command.command()
@click.argument("name")
@engine_options()
@output_options
def verify(output: Output, source: EngineSource, compiler: Compiler, name: str) -> None:
    """Say whether the file is the original with exactly this edit, and whether its kernels fit now."""
    from upright.kernels import patching

    patch_status = patching.look(patching.patch(name, source.engine), source)
    after = patching.prove(patch_status, compiler) if patch_status.file else []
    fits = bool(after) and all(verdict.verdict == "fits" for verdict in after)
    verified = patch_status.state == "applied" and fits
    answer = {**_plain(patch_status), "verified": verified, "proofs": _dumped(after)}
    output.answer(answer, lambda console: _verified(console, patch_status, after, verified))
    if not verified:
        output.no()
    output.next("patch", "revert", name, *_words(source))


@command.command()
@click.argument("name")
@click.option("--dry-run", is_flag=True, help="Change nothing.")
@engine_options(compiles=False)
@output_options
def revert(output: Output, source: EngineSource, name: str, dry_run: bool) -> None:
    """Put every byte of the original back."""
    from upright.kernels import patching

    patch_status = patching.look(patching.patch(name, source.engine), source)
    patching.revert(patch_status, dry_run=dry_run)
    done = "would be put back" if dry_run else "is the original again"
    answer = {**_plain(patch_status), "state": "applied" if dry_run else "applicable"}
    output.answer(answer, lambda console: line(console, f"{patch_status.file} {done}"))
    output.next("patch", "list", *_words(source))


def _ask(found: Found, source: EngineSource, yes: bool) -> None:
    from upright.errors import UsageError

    if not source.installed:
        raise UsageError(f"{source.where} is not an installation", hint="--env (an environment) or --source DIRECTORY")
    if yes:
        return
    if not sys.stdin.isatty():
        raise UsageError("nobody is here to ask", hint="--yes changes the file without asking")
    click.confirm(f"change {found.file}?", abort=True, err=True)


def _say_proof(before: Sequence[KernelVerdict], after: Sequence[KernelVerdict]) -> None:
    for old, new in zip(before, after, strict=True):
        if old.verdict != "fits":
            needed = f"{old.needed_bytes:,} -> {new.needed_bytes:,} of {old.limit_bytes:,} bytes"
            say(f"proof {old.target} {old.kernel}: {needed}")


def _plain(found: Found) -> dict[str, Any]:
    row = found.row
    return {
        "patch": row.id,
        "name": row.name,
        "engine": row.engine,
        "engine_version": found.source.version,
        "state": found.state,
        "why": found.why,
        "file": str(found.file) if found.file else None,
        "versions": row.versions,
        "expires": row.expires,
        "sources": list(row.sources),
    }


def _dumped(verdicts: Sequence[KernelVerdict]) -> list[dict[str, Any]]:
    return [verdict.model_dump(mode="json") for verdict in verdicts]


def _words(source: EngineSource) -> list[str]:
    return ["--engine", source.engine, *source.words]


def _table(console: Console, found: Sequence[Found]) -> None:
    for patch_status in found:
        line(console, f"{patch_status.row.id}: {patch_status.state} ({patch_status.why})")
        line(console, f"{patch_status.row.name}, for {patch_status.row.engine} {patch_status.row.versions}", 2)
        line(console, patch_status.row.why, 2)
    if not found:
        console.print("no patch for this engine")


def _verified(console: Console, found: Found, after: Sequence[KernelVerdict], verified: bool) -> None:
    line(console, f"{found.row.id}: {'verified' if verified else found.state} ({found.why})")
    for verdict in after:
        line(console, f"{verdict.target} {verdict.kernel}: {verdict.why}", 2)
