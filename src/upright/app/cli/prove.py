"""`upright prove`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from upright.app.cli.options import ADDRESS, RUNG, SECONDS, TOKENS, Spelled, deployment_argument, given, to_option
from upright.app.cli.output import Output, output_options, say
from upright.app.cli.speculating import answer, next_words, speculate_options
from upright.base.errors import UsageError
from upright.base.units import parse_rates

if TYPE_CHECKING:
    from upright.facts.store import DeploymentDir
    from upright.proof.ladder.asked_trial import Cells
    from upright.proof.ladder.rung import ProofOptions

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
    type=Spelled("rates", parse_rates),
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
    from upright.proof.ladder.asked_trial import trial_of
    from upright.proof.ladder.climbing import prove_deployment, prove_server
    from upright.proof.ladder.equivalence import references
    from upright.proof.ladder.servers import server_endpoint

    typed = click.get_current_context().params
    _refuse_misuse(**typed)
    options = _options(**typed)
    if dry_run:
        directory = None if deployment is None else store.running_or_last(deployment)
        _show_schedule(output, directory, _fitted(options, directory, reference), rates)
        output.next("prove", *([deployment] if deployment else []), *given(*_ASKED))
        return
    if base_url is not None:
        with server_endpoint(base_url, model, key_env) as endpoint:
            evidence = prove_server(endpoint, _fitted(options, None, reference), say)
        same = given("model", "key_env", "budget", "context", "soak", "no_restart")
        next_command = ["prove", "--base-url", base_url, "--only" if options.rungs else "--to", options.to, *same]
        output.answer(evidence, lambda console: evidence_page(console, evidence))
    else:
        directory = store.running_or_last(deployment)
        trial = trial_of(directory, ways, cells or (), repeats, output_tokens, not no_keep, options.budget_seconds)
        evidence = prove_deployment(directory, _fitted(options, directory, reference), say, trial)
        next_command = next_words(directory.name, evidence, tried=trial is not None)
        answer(output, evidence, directory, tried=trial is not None)
    if save_reference is not None:
        say(f"saved {references.save_reference(evidence, save_reference).reference} in {save_reference}")
    output.next(*next_command)
    if not evidence.passed:
        output.no()


def _options(to: str, only: str | None, **typed: Any) -> ProofOptions:
    """As they were typed; a rung that another option is for need not be named."""
    from upright.proof.ladder.equivalence.references import RUNG_NAME
    from upright.proof.ladder.ladder import MEASURES
    from upright.proof.ladder.prompts import prompt_set
    from upright.proof.ladder.rung import ProofOptions, SoakWish

    if not given("to", "only"):
        to = "speculation" if typed["ways"] else to
        only = RUNG_NAME if typed["reference"] or typed["save_reference"] else None
    return ProofOptions(
        to=only or to,
        rungs=(MEASURES, only) if only else None,
        prompts=prompt_set(typed["prompts"]) if typed["prompts"] else None,
        budget_seconds=typed["budget"],
        samples=typed["samples"],
        soak=SoakWish(typed["soak"], not typed["no_restart"]),
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
