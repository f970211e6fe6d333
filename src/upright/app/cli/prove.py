"""`upright prove`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from upright.app.cli.options import (
    ADDRESS,
    RUNG,
    SECONDS,
    TOKENS,
    F,
    ParsedType,
    deployment_argument,
    to_option,
    typed_words,
)
from upright.app.cli.output import Output, output_options, say
from upright.base.errors import UsageError
from upright.base.units import parse_cells, parse_rates

if TYPE_CHECKING:
    from rich.console import Console

    from upright.facts.records.evidence import Evidence
    from upright.facts.store import DeploymentDir


def _way(text: str) -> str:
    """ngram, draft=PATH, ...; refused before anything is connected to."""
    from upright.proof.ladder.trial_request import candidate_on_disk

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
    function = click.option("--cells", type=ParsedType("cells", parse_cells), help=cells)(function)
    judge = "For --speculate: judge only, and end with the recipe as it was."
    function = click.option("--no-keep", is_flag=True, help=judge)(function)
    return click.option(
        "--speculate", "ways", type=ParsedType("way", _way), multiple=True, metavar="WAY", help=ways_help
    )(function)


def next_words(name: str, evidence: Evidence, *, tried: bool) -> list[str]:
    """After a trial its report; before one how to begin it; else what a deployment that stands is for."""
    if not evidence.passed:
        return ["diagnose", name]
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


def show_trial(output: Output, evidence: Evidence, directory: DeploymentDir, *, tried: bool) -> None:
    """The evidence; after a trial its record too, and where one was only asked about, what could be tried."""
    from upright.app.pages.evidence_page import evidence_page
    from upright.app.pages.speculation_page import offers_page, speculation_page
    from upright.facts.records.recipe import Recipe
    from upright.facts.records.speculation import Speculation
    from upright.proof.ladder.rungs.speculation import speculation_offers

    record = directory.read(Speculation) if tried and evidence.passed else None

    def page(console: Console) -> None:
        evidence_page(console, evidence)
        if record is not None:
            speculation_page(console, record)
        elif evidence.to_rung == "speculation":
            offers_page(console, speculation_offers(directory.read(Recipe)))

    output.answer(record or evidence, page)


if TYPE_CHECKING:
    from upright.facts.store import DeploymentDir
    from upright.proof.ladder.rung import ProofOptions
    from upright.proof.ladder.trial_request import Cells

_ASKED = (
    "to", "only", "soak", "no_restart", "budget", "prompts", "samples", "context", "tries",
    "base_url", "model", "key_env", "reference", "save_reference",
)  # fmt: skip


@click.command()
@deployment_argument
@to_option
@click.option("--only", type=RUNG, help="Climb this one, after the first, which measures rates.")
@click.option("--soak", type=SECONDS, default="10m", show_default=True, help="How long the load of soak lasts.")
@click.option("--no-restart", is_flag=True, help="Soak without the restart under load at its end.")
@click.option("--budget", type=SECONDS, help="The time it may take, such as 30m; what does not fit is left out.")
@click.option("--prompts", help="Prompt set: real or tiny.  [default: by the model's size; real for --base-url]")
@click.option("--samples", type=click.IntRange(1), default=1, show_default=True, help="Times tools and JSON are asked.")
@click.option("--context", type=TOKENS, help="Walk up to this context; restarts where the recipe has less.")
@click.option("--try", "tries", multiple=True, metavar="FLAG=VALUE", help="Try a setting; kept if all still holds.")
@speculate_options
@click.option("--base-url", type=ADDRESS, help="Another's server, such as http://127.0.0.1:8000/v1.")
@click.option("--model", help="The name that it serves.  [default: the only one it names]")
@click.option("--key-env", metavar="NAME", help="The variable with that server's key; none is sent without it.")
@click.option(
    "--reference", metavar="FILE", help="For equivalence: a file of --save-reference, or a deployment's name."
)
@click.option("--save-reference", type=click.Path(path_type=Path, dir_okay=False), help="Keep its continuations here.")
@click.option("--dry-run", is_flag=True, help="Say what would be asked and how long that takes; ask nothing.")
@click.option(
    "--rates",
    type=ParsedType("rates", parse_rates),
    help="For --dry-run: tokens a second, read and written, such as 300,20.",
)
@output_options
def command(
    deployment: str | None,
    ways: tuple[str, ...],
    cells: Cells | None,
    output_tokens: int | None,
    repeats: int,
    no_keep: bool,
    base_url: str | None,
    model: str | None,
    key_env: str | None,
    reference: str | None,
    save_reference: Path | None,
    dry_run: bool,
    rates: tuple[float, float] | None,
    output: Output,
    **_asked: Any,
) -> None:
    """Climb the proof ladder on a running deployment, or on anybody's server."""
    from upright.app.pages.evidence_page import evidence_page
    from upright.facts import store
    from upright.proof.ladder.climbing import prove_deployment, prove_server
    from upright.proof.ladder.equivalence import references
    from upright.proof.ladder.servers import server_endpoint
    from upright.proof.ladder.trial_request import trial_of

    typed = click.get_current_context().params
    _refuse_misuse(**typed)
    options = _options(**typed)
    if dry_run:
        directory = None if deployment is None else store.running_or_last(deployment)
        _show_schedule(output, directory, _fitted(options, directory, reference), rates)
        output.next("prove", *([deployment] if deployment else []), *typed_words(*_ASKED))
        return
    if base_url is not None:
        with server_endpoint(base_url, model, key_env, options.budget_seconds) as endpoint:
            evidence = prove_server(endpoint, _fitted(options, None, reference), say)
        same = typed_words("model", "key_env", "budget", "context", "soak", "no_restart")
        next_command = ["prove", "--base-url", base_url, "--only" if options.rungs else "--to", options.to, *same]
        output.answer(evidence, lambda console: evidence_page(console, evidence))
    else:
        directory = store.running_or_last(deployment)
        trial = trial_of(directory, ways, cells or (), repeats, output_tokens, not no_keep, options.budget_seconds)
        evidence = prove_deployment(directory, _fitted(options, directory, reference), say, trial)
        next_command = next_words(directory.name, evidence, tried=trial is not None)
        show_trial(output, evidence, directory, tried=trial is not None)
    if save_reference is not None:
        say(f"saved {references.save_reference(evidence, save_reference).reference} in {save_reference}")
    output.next(*next_command)
    if not evidence.passed:
        output.no()


def _options(to: str, only: str | None, **typed: Any) -> ProofOptions:
    """As they were typed; a rung that another option is for need not be named."""
    from upright.proof.ladder.equivalence.references import RUNG_NAME
    from upright.proof.ladder.ladder import MEASURING_RUNG
    from upright.proof.ladder.prompts import prompt_set
    from upright.proof.ladder.rung import ProofOptions, SoakOptions

    if not typed_words("to", "only"):
        to = "speculation" if typed["ways"] else to
        only = RUNG_NAME if typed["reference"] or typed["save_reference"] else None
    return ProofOptions(
        to=only or to,
        rungs=(MEASURING_RUNG, only) if only else None,
        prompts=prompt_set(typed["prompts"]) if typed["prompts"] else None,
        budget_seconds=typed["budget"],
        samples=typed["samples"],
        soak=SoakOptions(typed["soak"], not typed["no_restart"]),
        context_tokens=typed["context"],
        tries=typed["tries"],
    )


def _fitted(options: ProofOptions, directory: DeploymentDir | None, reference: str | None) -> ProofOptions:
    """With the prompts that fit the model, where none were named, and the reference, which must be of the same."""
    from upright.facts.records.model import Model
    from upright.proof.ladder.equivalence.references import reference_for
    from upright.proof.ladder.prompts import prompt_set, prompt_set_for

    fitting = prompt_set("real") if directory is None else prompt_set_for(directory.read(Model))
    prompts = options.prompts or fitting
    return replace(options, prompts=prompts, reference=None if reference is None else reference_for(reference, prompts))


def _refuse_misuse(base_url: str | None, **typed: Any) -> None:
    """Options that belong to others which are not there."""
    if (typed["cells"] or typed["output_tokens"] is not None) and not typed["ways"]:
        name = "--cells" if typed["cells"] else "--output-tokens"
        raise UsageError(f"{name} is for --speculate", hint="--speculate ngram, or another way that the engine offers")
    if typed["rates"] and not typed["dry_run"]:
        raise UsageError("--rates is for --dry-run", hint="a climb measures them itself")
    if base_url is None and typed["model"]:
        raise UsageError("--model needs --base-url", hint="a deployment of ours knows its own")
    if base_url is None and typed["key_env"] is not None:
        raise UsageError("--key-env needs --base-url", hint="a deployment of ours has a key of its own")
    if base_url is not None and (typed["deployment"] or typed["tries"] or typed["ways"]):
        raise UsageError("--base-url is another's server: no deployment, no --try and no --speculate with it")


def _show_schedule(
    output: Output, directory: DeploymentDir | None, options: ProofOptions, rates: tuple[float, float] | None
) -> None:
    from upright.app.pages.evidence_page import schedule_page, schedule_rows
    from upright.proof.ladder.climbing import proof_schedule

    groups, changes = proof_schedule(directory, options, rates)
    output.answer(schedule_rows(groups), lambda console: schedule_page(console, groups, options.budget_seconds, rates))
    for change in changes:
        say(f"then a restart and a climb with {change.setting} {change.value or ''}".rstrip())
