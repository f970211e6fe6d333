"""`upright prove --speculate`: its options, and what came of it -> a page."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from upright.app.cli.options import TOKENS, F, Spelled
from upright.app.cli.output import Output
from upright.base.units import parse_cells

if TYPE_CHECKING:
    from rich.console import Console

    from upright.facts.records.evidence import Evidence
    from upright.facts.store import DeploymentDir


def _way(text: str) -> str:
    """ngram, draft=PATH, ...; refused before anything is connected to."""
    from upright.proof.ladder.asked_trial import candidate_on_disk

    if text != "auto":
        candidate_on_disk(text)
    return text


def speculate_options(function: F) -> F:
    ways_help = "Try speculative decoding: ngram, draft=PATH, eagle3=PATH, mtp, none or auto; kept if it pays."
    cells = "For --speculate: prompt by users, such as 512x1,8kx4.  [default: by the goal]"
    times = "For --speculate: measure each cell so often, half of them before and half after."
    count = click.IntRange(2, 100)
    function = click.option("--repeats", type=count, default=4, show_default=True, help=times)(function)
    answer = "For --speculate: tokens of an answer.  [default: 128]"
    function = click.option("--output-tokens", type=TOKENS, help=answer)(function)
    function = click.option("--cells", type=Spelled("cells", parse_cells), help=cells)(function)
    judge = "For --speculate: judge only, and end with the recipe as it was."
    function = click.option("--no-keep", is_flag=True, help=judge)(function)
    return click.option("--speculate", "ways", type=Spelled("way", _way), multiple=True, metavar="WAY", help=ways_help)(
        function
    )


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
    from upright.app.pages.evidence_page import evidence_page
    from upright.app.pages.speculation_page import offers_page, speculation_page
    from upright.facts.records.recipe import Recipe
    from upright.facts.records.speculation import Speculation
    from upright.proof.ladder.rungs.speculation import offered

    record = directory.read(Speculation) if tried and evidence.passed else None

    def page(console: Console) -> None:
        evidence_page(console, evidence)
        if record is not None:
            speculation_page(console, record)
        elif evidence.to_rung == "speculation":
            offers_page(console, offered(directory.read(Recipe)))

    output.answer(record or evidence, page)
