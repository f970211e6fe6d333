"""`upright prove`."""

from __future__ import annotations

from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from upright.cli.options import (
    Address,
    RungName,
    Seconds,
    Tokens,
    deployment_argument,
    given,
    to_option,
)
from upright.cli.output import Output, output_options, say
from upright.cli.speculating import Cells, answer, next_words, speculate_options
from upright.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from upright.proving.journaled import Wish
    from upright.proving.prompts import PromptSet
    from upright.proving.rung import ProofTarget
    from upright.proving.speculating import Trial
    from upright.proving.stepping import TrialChange
    from upright.records.evidence import Evidence
    from upright.store import DeploymentDir

_ASKED = (
    "to", "only", "soak", "no_restart", "budget", "prompts", "samples", "context", "tries",
    "base_url", "model", "key_env", "reference", "save_reference",
)  # fmt: skip


class _Pair(click.ParamType[tuple[float, float]]):
    """300,20: tokens a second, read and written."""

    name = "rates"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[float, float]:
        try:
            read, written = (float(part) for part in str(value).split(","))
        except ValueError:
            self.fail(f"{value!r} is no pair of rates; write 300,20", param, ctx)
        if not (0 < read < inf and 0 < written < inf):
            self.fail(f"{value!r}: both rates are numbers above zero", param, ctx)
        return read, written


@click.command()
@deployment_argument
@to_option
@click.option("--only", type=RungName(), help="Climb this one, after the first, which measures rates.")
@click.option("--soak", type=Seconds(), default="10m", show_default=True, help="How long the load of soak lasts.")
@click.option("--no-restart", is_flag=True, help="Soak without the restart under load at its end.")
@click.option("--budget", type=Seconds(), help="The time it may take, such as 30m; what does not fit is left out.")
@click.option("--prompts", help="Prompt set: real or tiny.  [default: by the model's size; real for --base-url]")
@click.option("--samples", type=click.IntRange(1), default=1, show_default=True, help="Times tools and JSON are asked.")
@click.option("--context", type=Tokens(), help="Walk up to this context; restarts where the recipe has less.")
@click.option("--try", "tries", multiple=True, metavar="FLAG=VALUE", help="Try a setting; kept if all still holds.")
@speculate_options
@click.option("--base-url", type=Address(), help="Another's server, such as http://127.0.0.1:8000/v1.")
@click.option("--model", help="The name that it serves.  [default: the only one it names]")
@click.option("--key-env", metavar="NAME", help="The variable with that server's key; none is sent without it.")
@click.option(
    "--reference", metavar="FILE", help="For equivalence: a file of --save-reference, or a deployment's name."
)
@click.option("--save-reference", type=click.Path(path_type=Path, dir_okay=False), help="Keep its continuations here.")
@click.option("--dry-run", is_flag=True, help="Say what would be asked and how long that takes; ask nothing.")
@click.option("--rates", type=_Pair(), help="For --dry-run: tokens a second, read and written, such as 300,20.")
@output_options
def command(
    deployment: str | None,
    to: str,
    only: str | None,
    soak: float,
    no_restart: bool,
    budget: float | None,
    prompts: str | None,
    samples: int,
    context: int | None,
    tries: tuple[str, ...],
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
) -> None:
    """Climb the proof ladder on a running deployment, or on anybody's server."""
    from upright import store
    from upright.proving.asked_trial import trial_of
    from upright.proving.equivalence import references
    from upright.proving.journaled import Wish
    from upright.proving.ladder import MEASURES
    from upright.proving.prompts import prompt_set
    from upright.proving.rung import SoakWish
    from upright.showing.evidence_page import evidence_page

    _refuse_misuse(**click.get_current_context().params)
    chosen = prompt_set(prompts) if prompts else None
    if not given("to", "only"):
        to = "speculation" if ways else references.RUNG_NAME if reference or save_reference else to
        only = references.RUNG_NAME if reference or save_reference else only

    def wish(fitting: PromptSet) -> Wish:
        wanted, asked = (MEASURES, only) if only else (), chosen or fitting
        compared = None if reference is None else references.reference_for(reference, asked)
        return Wish(only or to, asked, budget, samples, wanted, SoakWish(soak, not no_restart), compared)

    if dry_run:
        _show_schedule(output, wish, deployment, context, tries, rates)
        return
    if base_url is not None:
        evidence = _prove_server(base_url, model, key_env, wish(prompt_set("real")), context)
        which = ["--only", only] if only else ["--to", to]
        same = given("model", "key_env", "budget", "context", "soak", "no_restart")
        next_command = ["prove", "--base-url", base_url, *which, *same]
        output.answer(evidence, lambda console: evidence_page(console, evidence))
    else:
        directory = store.running_or_last(deployment)
        trial = trial_of(directory, ways, cells or (), repeats, output_tokens, not no_keep, budget)
        evidence = _prove_deployment(directory, wish, context, tries, trial)
        next_command = next_words(directory.name, evidence, tried=trial is not None)
        answer(output, evidence, directory, tried=trial is not None)
    if save_reference is not None:
        say(f"saved {references.save_reference(evidence, save_reference).reference} in {save_reference}")
    output.next(*next_command)
    if not evidence.passed:
        output.no()


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


def _prove_deployment(
    directory: DeploymentDir,
    wish: Callable[[PromptSet], Wish],
    context: int | None,
    tries: tuple[str, ...],
    trial: Trial | None,
) -> Evidence:
    from upright.proving.climbing import climb_deployment

    wanted, changes = _wanted(directory, wish, context, tries)
    return climb_deployment(directory, wanted, say, changes, trial)


def _wanted(
    directory: DeploymentDir, wish: Callable[[PromptSet], Wish], context: int | None, tries: tuple[str, ...]
) -> tuple[Wish, list[TrialChange]]:
    """The climb with the prompts that fit the model, and what is to be changed after it."""
    from upright.proving.prompts import prompt_set_for
    from upright.proving.stepping import change_of, longer_contexts
    from upright.records.model import Model

    wanted = wish(prompt_set_for(directory.read(Model)))
    return wanted, [*longer_contexts(directory, wanted.prompts, context), *(change_of(text) for text in tries)]


def _prove_server(base_url: str, model: str | None, key_env: str | None, wish: Wish, context: int | None) -> Evidence:
    from upright.endpoint.client import Endpoint
    from upright.proving.climbing import climb_server
    from upright.proving.servers import key_in, name_its_model

    with Endpoint(base_url, model or "", key=key_in(key_env)) as endpoint:
        name_its_model(endpoint)
        return climb_server(endpoint, wish, say, context)


def _show_schedule(
    output: Output,
    wish: Callable[[PromptSet], Wish],
    deployment: str | None,
    context: int | None,
    tries: tuple[str, ...],
    rates: tuple[float, float] | None,
) -> None:
    """Of the deployment that is named; without a name of a server that is not there yet."""
    from upright import store
    from upright.proving.ladder import planned, target_of
    from upright.proving.prompts import prompt_set
    from upright.records.deployment import Deployment
    from upright.records.recipe import Recipe
    from upright.showing.evidence_page import schedule_page, schedule_rows

    target: ProofTarget | None = None
    changes: list[TrialChange] = []
    if deployment is None:
        wanted = wish(prompt_set("real"))
    else:
        directory = store.running_or_last(deployment)
        wanted, changes = _wanted(directory, wish, context, tries)
        target = target_of(directory.read(Deployment), directory.read(Recipe))
        context = max(context or 0, target.context_tokens or 0)
    schedule = planned(
        wanted.prompts,
        to=wanted.to,
        rungs=wanted.only or None,
        budget_seconds=wanted.budget_seconds,
        samples=wanted.samples,
        soak=wanted.soak,
        context_tokens=context,
        rates=rates,
        target=target,
    )
    budget = wanted.budget_seconds
    output.answer(schedule_rows(schedule), lambda console: schedule_page(console, schedule, budget, rates))
    for change in changes:
        say(f"then a restart and a climb with {change.setting} {change.value or ''}".rstrip())
    output.next("prove", *([deployment] if deployment else []), *given(*_ASKED))
