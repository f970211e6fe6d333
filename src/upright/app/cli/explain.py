"""`upright explain`: what a name is, why it matters, and what to do."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

import click

from upright.app.cli.output import Output, output_options

if TYPE_CHECKING:
    from upright.facts.catalog.explaining import Explanation


class NameThatLooksLikeAnOption(click.Command):
    """`explain -ot` asks about -ot, `explain out of memory` needs no quotes; --json, -o FILE and --help are options."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        own: list[str] = []
        name_words: list[str] = []
        left = iter(args)
        for word in left:
            if word in ("--json", "-h", "--help"):
                own.append(word)
            elif word in ("-o", "--output"):
                own += [word, *islice(left, 1)]
            elif word != "--":
                name_words.append(word)
        return super().parse_args(ctx, [*own, "--", " ".join(name_words)] if name_words else own)


@click.command(name="explain", cls=NameThatLooksLikeAnOption)
@click.argument("name")
@output_options
def command(output: Output, name: str) -> None:
    """Explain anything: a failure, a flag, a field, a term, a GPU, a model, a line of a log.

    \b
    upright explain MLA                      upright explain triton-shared-memory
    upright explain Plan.kv.capacity_tokens  upright explain --max-num-seqs
    upright explain "CUDA error: no kernel image is available ..."
    """
    from upright.app.pages.explanation_page import explanation_pages
    from upright.base.errors import CatalogError, UsageError
    from upright.facts.catalog.explaining import explain

    if not name.strip():
        raise UsageError("there is no name to explain", hint="upright explain kv_cache")
    own = _option(name.strip())
    try:
        explanations = (*explain(name), *own)
    except CatalogError:
        explanations = own or _option(f"--{name.strip().replace('_', '-')}")
        if not explanations:
            raise
    output.answer(
        [explanation.model_dump(mode="json") for explanation in explanations],
        lambda console: explanation_pages(console, explanations),
    )


def _option(name: str) -> tuple[Explanation, ...]:
    """Upright's own option of that name."""
    if not name.startswith("--"):
        return ()
    from upright.app.cli.main import cli
    from upright.app.cli.verbs import VERBS, words_of
    from upright.facts.catalog.explaining import Explanation

    verbs: dict[str, list[str]] = {}
    for verb in VERBS:
        command = cli.get_command(click.Context(cli), verb)
        for option in command.params if command else ():
            if isinstance(option, click.Option) and name in option.opts:
                verbs.setdefault(option.help or "", []).append(" ".join(words_of(verb)))
    return tuple(
        Explanation(
            kind="option of upright",
            name=name,
            what=what,
            facts=(("of", ", ".join(verbs[what])),),
            do=(f"upright {verbs[what][0]} --help",),
            sources=("upright's own help",),
        )
        for what in verbs
    )
