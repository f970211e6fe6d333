"""`upright prove --speculate`: what a person names -> a Trial, and what came of it -> a page."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from upright.cli.options import F, Tokens
from upright.cli.output import Output
from upright.errors import UsageError

if TYPE_CHECKING:
    from rich.console import Console

    from upright.engines.facets.speculation import Candidate
    from upright.proving.speculating import Trial
    from upright.records.evidence import Evidence
    from upright.store import DeploymentDir

Cells = tuple[tuple[int, int], ...]


class _Cells(click.ParamType[Cells]):
    """512x1,8kx4: tokens of a prompt by requests at once."""

    name = "cells"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Cells:
        from upright.units import parse_tokens

        cells = []
        for part in str(value).split(","):
            prompt, _, users = part.rpartition("x")
            try:
                cells.append((parse_tokens(prompt), int(users)))
            except ValueError:
                self.fail(f"{part!r} is no cell; write 8kx4: tokens of a prompt by requests at once", param, ctx)
            if cells[-1][1] < 1:
                self.fail(f"{part!r}: the least is one request at once", param, ctx)
        return tuple(dict.fromkeys(cells))


class _Way(click.ParamType[str]):
    """ngram, draft=PATH, ...; refused before anything is connected to."""

    name = "way"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        from upright.engines.speculation import candidate

        if value != "auto":
            _on_disk(candidate(str(value)))
        return str(value)


def speculate_options(function: F) -> F:
    ways_help = "Try speculative decoding: ngram, draft=PATH, eagle3=PATH, mtp, none or auto; kept if it pays."
    cells = "For --speculate: prompt by users, such as 512x1,8kx4.  [default: by the goal]"
    times = "For --speculate: measure each cell so often, half of them before and half after."
    count = click.IntRange(2, 100)
    function = click.option("--repeats", type=count, default=4, show_default=True, help=times)(function)
    answer = "For --speculate: tokens of an answer.  [default: 128]"
    function = click.option("--output-tokens", type=Tokens(), help=answer)(function)
    function = click.option("--cells", type=_Cells(), help=cells)(function)
    judge = "For --speculate: judge only, and end with the recipe as it was."
    function = click.option("--no-keep", is_flag=True, help=judge)(function)
    return click.option("--speculate", "ways", type=_Way(), multiple=True, metavar="WAY", help=ways_help)(function)


def trial_of(
    directory: DeploymentDir,
    ways: tuple[str, ...],
    cells: Cells,
    repeats: int,
    output_tokens: int | None,
    keep: bool,
    budget: float | None,
) -> Trial | None:
    from upright.engines.speculation import candidate
    from upright.proving.speculating import MEASURING_SECONDS, OUTPUT_TOKENS, Trial, automatic
    from upright.records.recipe import Recipe

    if not ways:
        return None
    recipe, named_candidates = directory.read(Recipe), list[Any]()
    for way in ways:
        named_candidates += automatic(recipe) if way == "auto" else [_on_disk(candidate(way))]
    if not named_candidates:
        raise UsageError(f"{recipe.engine} offers nothing that needs no draft", hint="name one: --speculate draft=PATH")
    candidates = tuple(dict.fromkeys(named_candidates))
    tokens = OUTPUT_TOKENS if output_tokens is None else output_tokens
    if not 2 <= tokens < recipe.context_tokens:
        raise UsageError(
            f"answers of {tokens:,} tokens are no measure of a context of {recipe.context_tokens:,}",
            hint="--output-tokens 64",
        )
    return Trial(candidates, cells, repeats, tokens, budget_seconds=budget or MEASURING_SECONDS, keep=keep)


def next_words(name: str, evidence: Evidence, *, tried: bool) -> list[str]:
    """After a trial its report; before one how to begin it; else what a deployment that stands is for."""
    if not evidence.passed:
        return ["logs", name]
    if tried:
        return ["report", name]
    seen = next(
        (observation.reason for observation in evidence.of("speculation") if "; try one with" in observation.reason),
        None,
    )
    if seen is None or evidence.to_rung != "speculation":
        return ["connect", name]
    way = seen.partition(" offers ")[2].partition(";")[0].partition(",")[0]
    return ["prove", name, "--to", "speculation", "--speculate", way]


def answer(output: Output, evidence: Evidence, directory: DeploymentDir, *, tried: bool) -> None:
    """The evidence; after a trial its record too, and where one was only asked about, what could be tried."""
    from upright.proving.rungs.speculation import offered
    from upright.records.recipe import Recipe
    from upright.records.speculation import Speculation
    from upright.showing.evidence_page import evidence_page
    from upright.showing.speculation_page import offers_page, speculation_page

    record = directory.read(Speculation) if tried and evidence.passed else None

    def page(console: Console) -> None:
        evidence_page(console, evidence)
        if record is not None:
            speculation_page(console, record)
        elif evidence.to_rung == "speculation":
            offers_page(console, offered(directory.read(Recipe)))

    output.answer(record or evidence, page)


def _on_disk(wanted: Candidate) -> Candidate:
    """A draft by its path, as the engine will be told it; engines of ours download nothing by themselves."""
    from upright.fetching import find_weights

    if wanted.draft is None:
        return wanted
    given = Path(wanted.draft)
    path = given if given.exists() else find_weights(wanted.draft)
    if path is None:
        raise UsageError(f"no draft at {wanted.draft}", hint=f"a path, or fetch it first: upright fetch {wanted.draft}")
    return replace(wanted, draft=str(path.absolute()))
