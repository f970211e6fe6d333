"""`upright tools kernels patch`: apply, verify or revert a patch of an installed engine, with proof."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from upright.app.cli.engine_source import engine_options
from upright.app.cli.lazy import FullSummaryGroup
from upright.app.cli.output import Output, output_options, say
from upright.base.terminal.wrapping import print_wrapped

if TYPE_CHECKING:
    from upright.proof.kernels import Compiler
    from upright.proof.kernels.sources import EngineSource


@click.group(name="patch", cls=FullSummaryGroup, context_settings={"auto_envvar_prefix": "UPRIGHT_PATCH"})
def command() -> None:
    """Patch an installed engine, with proof, and take it back."""


@command.command(name="list")
@engine_options(compiles=False)
@output_options
def list_(output: Output, source: EngineSource) -> None:
    """Say which patches there are for this engine, and what each is for its files."""
    from upright.app.pages.patch_page import patch_json, patches_page
    from upright.proof.kernels import patching

    patches = [patching.match_patch(row, source) for row in patching.patches(source.engine)]
    output.answer([patch_json(patch) for patch in patches], lambda console: patches_page(console, patches))


@command.command()
@click.argument("name")
@click.option("--dry-run", is_flag=True, help="Show the diff and the proof, change nothing.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option(
    "--issue", metavar="FILE", help="Also write the text of an issue or a pull request for the engine's makers."
)
@engine_options()
@output_options
def apply(
    output: Output, source: EngineSource, compiler: Compiler, name: str, dry_run: bool, yes: bool, issue: str | None
) -> None:
    """Show the diff, compile before and after, then change the file and keep the original beside it."""
    from upright.app.pages.patch_page import patch_json, proof_lines, upstream_text
    from upright.base.errors import EngineError
    from upright.facts.store import write_inside
    from upright.proof.kernels import patching

    patch = patching.match_patch(patching.patch(name, source.engine), source)
    before = patching.patch_verdicts(patch, compiler) if patch.file else []
    if reason := patching.refusal(patch, before):
        answer = patch_json(patch, refused=reason, before=before)
        output.answer(answer, lambda console: print_wrapped(console, f"refused: {reason}"))
        output.no()
    text, change = patching.patched_text(patch), patching.diff(patch)
    after = patching.patch_verdicts(patch, compiler, text)
    if any(verdict.verdict != "fits" for verdict in after):
        raise EngineError(f"{name} would not help: {next(v.why for v in after if v.verdict != 'fits')}")
    say(change)
    for sentence in proof_lines(before, after):
        say(sentence)
    if issue is not None:
        write_inside(Path(issue), upstream_text(patch, before, after, change))
    if not dry_run:
        _ask(patch.file, source, yes)
        patching.write(patch, text)
    state = "applicable" if dry_run else "applied"
    answer = patch_json(patch, state=state, diff=change, before=before, after=after)
    done = "would be changed" if dry_run else f"patched; the original is {patch.backup.name} beside it"
    output.answer(answer, lambda console: print_wrapped(console, f"{patch.file} {done}"))
    if not dry_run:
        say("an engine that is running keeps its old kernels until it is started again")
    output.next("patch", "apply" if dry_run else "verify", name, *_words(source), *compiler.options)


@command.command()
@click.argument("name")
@engine_options()
@output_options
def verify(output: Output, source: EngineSource, compiler: Compiler, name: str) -> None:
    """Say whether the file is the original with exactly this edit, and whether its kernels fit now."""
    from upright.app.pages.patch_page import patch_json, verified_page
    from upright.proof.kernels import patching

    patch = patching.match_patch(patching.patch(name, source.engine), source)
    after = patching.patch_verdicts(patch, compiler) if patch.file else []
    verified = patching.is_verified(patch, after)
    answer = patch_json(patch, verified=verified, proofs=after)
    output.answer(answer, lambda console: verified_page(console, patch, after, verified))
    if not verified:
        output.no()
    output.next("ps")


@command.command()
@click.argument("name")
@click.option("--dry-run", is_flag=True, help="Change nothing.")
@engine_options(compiles=False)
@output_options
def revert(output: Output, source: EngineSource, name: str, dry_run: bool) -> None:
    """Put every byte of the original back."""
    from upright.app.pages.patch_page import patch_json
    from upright.proof.kernels import patching

    patch = patching.match_patch(patching.patch(name, source.engine), source)
    patching.revert(patch, dry_run=dry_run)
    done = "would be put back" if dry_run else "is the original again"
    answer = patch_json(patch, state="applied" if dry_run else "applicable")
    output.answer(answer, lambda console: print_wrapped(console, f"{patch.file} {done}"))
    output.next("patch", "list", *_words(source))


def _ask(file: Path | None, source: EngineSource, yes: bool) -> None:
    from upright.base.errors import UsageError

    if not source.installed:
        raise UsageError(f"{source.where} is not an installation", hint="--env (an environment) or --source DIRECTORY")
    if yes:
        return
    if not sys.stdin.isatty():
        raise UsageError("nobody is here to ask", hint="--yes changes the file without asking")
    click.confirm(f"change {file}?", abort=True, err=True)


def _words(source: EngineSource) -> list[str]:
    return ["--engine", source.engine, *source.words]
