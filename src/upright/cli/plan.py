"""plan: a model, a box and a goal -> what fits, as a page or as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from upright.cli.options import RANKS, Number, engine_option, given, goal_options, model_argument
from upright.cli.output import Output, note, output_options, page_width
from upright.cli.planned import (
    GOAL,
    JUDGED,
    MACHINE,
    WISHES,
    artifacts_of,
    box_named,
    box_options,
    goal_of,
    measurements,
    node_options,
)

if TYPE_CHECKING:
    from upright.records.kernel import KernelVerdict
    from upright.records.model import Model
    from upright.records.plan import Nearest, Plan

SHOWN = 6
FOR_ANY_MODEL = ("context", "users", "use", "min_speed")
USES = ("coding-agent", "chat", "batch", "long-documents")


@click.command(name="plan")
@model_argument
@box_options
@goal_options
@node_options
@click.option("--use", type=click.Choice(USES), default=USES[0], show_default=True, help="The shape of the load.")
@engine_option
@click.option("--engine-version", help="Only this version of it, such as 0.32.0.")
@click.option("--tp", type=RANKS, help="Ranks of tensor parallelism.")
@click.option("--pp", type=RANKS, help="Pipeline stages.")
@click.option("--dcp", type=RANKS, help="Ranks that share one copy of the cache.")
@click.option("--kv-dtype", help="Type of the KV cache, as the engine spells it: bf16, fp8, q8_0.")
@click.option(
    "--gpu-memory-utilization",
    type=Number(min=0),
    help="Share of each GPU for the engine, whatever the engine calls it.",
)
@click.option("--draft", is_flag=True, help="With a draft model.")
@click.option(
    "--acceptance", type=Number(min=0), help="Share of its guesses that are accepted on your load, such as 0.4."
)
@click.option("--image", help="Container image, as in the catalogue: its patches decide cache type and speed.")
@click.option("--min-speed", type=Number(min=0), help="Slowest tokens a second that will do for one user.")
@click.option("--why", is_flag=True, help="Every term of memory and of time.")
@click.option("--all", "everything", is_flag=True, help="Every way that was planned, best first.")
@click.option(
    "--kernels", type=click.Path(path_type=Path, exists=True), help="What `upright kernels check -o FILE` found out."
)
@click.option("--no-measured", is_flag=True, help="Without what earlier starts on this box measured.")
@output_options
def command(output: Output, model: str, **wanted: Any) -> None:
    """Say whether the model fits, with how much context."""
    import gc

    # A plan lives for half a second and most of that is imports: collecting garbage would be a sixth of it.
    gc.disable()
    try:
        _plan(output, model, wanted)
    finally:
        gc.enable()


def _plan(output: Output, model: str, wanted: dict[str, Any]) -> None:
    from upright.cli.plan_page import plan_page
    from upright.planning import plan
    from upright.planning.artifacts import smaller

    goal, machine, chosen = goal_of(wanted), box_named(*(wanted[name] for name in MACHINE)), artifacts_of(model)
    verdicts = _verdicts(wanted["kernels"])
    plans = plan(
        machine,
        chosen.model,
        goal,
        choose_from=chosen.choose_from,
        others=chosen.others,
        verdicts=verdicts,
        measured=() if wanted["no_measured"] else measurements(),
    )
    best = plans[0]
    if output.as_json:
        shown = [{**found.to_dict(), "fits": found.fits} for found in plans[:SHOWN]]
        Output(True, None).answer({"fits": best.fits, "plans": shown})
    if output.path is not None:
        Output(False, output.path).answer(best)  # a file is the best plan's record, which `render` takes
    offers = [found for found in best.nearest if found.options or found.artifact or _ranks_refused(best)]
    slower = bool(offers) and offers[0].options[:1] == ("--min-speed",)  # gives up what was asked
    instead = smaller(machine, goal, chosen.model) if not best.fits and (slower or not offers) else []
    output.show(plan_page(plans, chosen, page_width(), instead, why=wanted["why"], everything=wanted["everything"]))
    short = any(objection.short_bytes for objection in best.objections)
    if short and machine.memory_bytes.value is None:
        note("nobody says how much main memory this box has, 16 GiB are assumed; say it with --host-memory GIB")
    if best.fits:
        named = model if best.model == chosen.model.name else _source(best.model, chosen.choose_from)
        if wanted["box"] is None:
            output.next("up", named, *given("context", "users"))
        else:
            context = () if wanted["context"] or not given("use") else ("--context", str(best.context_tokens))
            output.next("render", named, *given(*(name for name in WISHES if name not in JUDGED)), *context)
        return
    if instead:
        output.next("plan", instead[0].model, *given(*MACHINE, *FOR_ANY_MODEL))
    elif offers:
        output.next("plan", offers[0].artifact or model, *_kept(offers[0], best), *offers[0].options)
    else:
        output.next("catalog", "list", "models")
    output.no()


def _ranks_refused(plan: Plan) -> bool:
    """Then what would fit is the same without them, which no option says."""
    return any(objection.code == "no-ranks" for objection in plan.objections)


def _kept(offer: Nearest, plan: Plan) -> list[str]:
    """What the person typed and the offer does not change."""
    from upright.planning.nearest import ARTIFACT_WISHES, RANK_WISHES

    dropped = ARTIFACT_WISHES if offer.artifact else RANK_WISHES if _ranks_refused(plan) else ()
    wishes = (name for name, field in GOAL.items() if field not in dropped)
    names = (*wishes, *MACHINE, "kernels", "no_measured")
    return given(*(name for name in names if f"--{name.replace('_', '-')}" not in offer.options))


def _source(name: str, artifacts: Iterable[Model]) -> str:
    return next(artifact.source for artifact in artifacts if artifact.name == name)


def _verdicts(path: Path | None) -> Sequence[KernelVerdict]:
    if path is None:
        return ()
    from upright.records.kernel import KernelCheck
    from upright.records.loading import load

    return load(path, KernelCheck).verdicts
