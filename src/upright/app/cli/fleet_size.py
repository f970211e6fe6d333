"""`upright fleet size`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from upright.app.cli.options import ENGINE, TOKENS, Number, ParsedType, typed_words
from upright.app.cli.output import Output, note, output_options, page_width, say
from upright.app.cli.plan_options import MACHINE, box_options, goal_of, named_box, use_option
from upright.base.units import parse_named_numbers

if TYPE_CHECKING:
    from upright.facts.records.plan import Use
    from upright.planning.requests.fleet_sizing import SizedFleet
    from upright.planning.sizing.answer import ServingBox

_ENOUGH = {True: "enough", False: "too few"}
_ENGINE = ("engine", "engine_version", "kv_dtype", "image")
_ASKED = (
    "users", "use", "evidence", *MACHINE, "context", *_ENGINE, "streams", "pool_tokens", "usage", "price", "host_watts",
    "spares", "exact", "seed",
)  # fmt: skip
"""Everything of a call but its promise."""


def named_numbers(*known: str) -> ParsedType[dict[str, float]]:
    return ParsedType("pairs", lambda text: parse_named_numbers(text, known))


@click.command(name="size")
@click.argument("model", required=False, metavar="[MODEL|PLAN]")
@click.option("--users", type=click.IntRange(1), required=True, help="People who use it at once, thinking included.")
@use_option
@click.option(
    "--slo",
    type=named_numbers("ttft", "rate", "share"),
    default="ttft=5s,rate=20",
    show_default=True,
    help="First token within, tokens a second at least; share=0.95 of turns must keep them.",
)
@click.option(
    "--evidence",
    multiple=True,
    metavar="DEPLOYMENT|FILE",
    help="A deployment that `upright bench` measured, or a benchmark.json: its curve instead of a planned one.",
)
@box_options
@click.option("--context", type=TOKENS, help="Tokens of context that are served, such as 64k.  [default: by the use]")
@click.option("--engine", type=ENGINE, help="Only this engine.")
@click.option("--engine-version", help="Only this version of it, such as 0.32.0.")
@click.option("--kv-dtype", help="Type of the KV cache, as the engine spells it.")
@click.option("--image", help="Container image, as in the catalogue: its patches decide cache type and speed.")
@click.option(
    "--streams",
    type=click.IntRange(1),
    help="Sequences that an engine runs at once: if evidence does not say, or of one with slots instead of the best.",
)
@click.option("--pool-tokens", type=TOKENS, help="Tokens that its cache holds, if evidence does not say.")
@click.option(
    "--usage", type=named_numbers(), default={}, help="What your people do instead: turns=40,thinking_seconds=2m,..."
)
@click.option(
    "--price", type=named_numbers("hour", "kwh", "box"), default={}, help="Money: hour=12.5,kwh=0.3,box=90000."
)
@click.option("--host-watts", type=Number(min=0), help="What a box takes beside its GPUs.")
@click.option(
    "--spares", type=click.IntRange(0), help="Boxes beside those needed.  [default: by failures; 0 below 3 boxes]"
)
@click.option(
    "--exact", is_flag=True, help="Simulate every box of a large fleet instead of a part: minutes, not seconds."
)
@click.option("--seed", type=int, default=0, show_default=True, help="Of the simulation.")
@click.option("--why", is_flag=True, help="Where every figure of what people do comes from.")
@output_options
def command(output: Output, model: str | None, users: int, use: Use, why: bool, **wanted: Any) -> None:
    """Say how many boxes so many people need.

    By simulation of every turn: how one box serves comes from evidence, or from a plan of MODEL with its band: for one
    request at once, for two, for four, whichever needs the fewest boxes. What
    people do comes from the catalogue (`upright catalog show usages coding-agent`) or from --usage. The answer is no
    (exit code 1) if even one user alone on a box would not be served as promised.
    """
    from upright.app.pages.sizing_page import sizing_page, unused_sentence
    from upright.planning.requests.fleet_sizing import SizeRequest, size_request, slo_of

    promise, habits, prices = slo_of(wanted["slo"]), wanted["usage"], wanted["price"]
    request = SizeRequest(
        users, use, promise, habits, prices, wanted["host_watts"], wanted["seed"], wanted["spares"], wanted["exact"]
    )
    sized = size_request(request, _ways(model, use, wanted), on_trial=_tell)
    made, serving = sized.sizing, sized.serving
    if made is None:
        _refuse(output, model, sized)
        return
    if output.wants_record:
        output.answer(made)
    output.show(sizing_page(made, page_width(), why=why))
    if (sentence := unused_sentence(serving.box, prices, wanted["host_watts"])) is not None:
        note(sentence)
    if serving.at_once is None or model is None:
        output.next("bench")
    elif Path(model).is_file():
        output.next("render", model, *typed_words(*MACHINE))
    else:
        at_once = ["--users", str(serving.at_once)] if serving.at_once > 1 else []
        context = ["--context", str(serving.context_tokens)] if wanted["context"] is None else typed_words("context")
        output.next("plan", model, *typed_words(*MACHINE, "use", *_ENGINE), *context, *at_once)


def _tell(what: str, boxes: int, kept: bool) -> None:
    if sys.stderr.isatty():
        say(f"{what}: {boxes:,} box{'es' if boxes > 1 else ''} {'are' if boxes > 1 else 'is'} {_ENOUGH[kept]}")


def _refuse(output: Output, model: str | None, sized: SizedFleet) -> None:
    from upright.app.pages.sizing_page import alone_sentence, reachable_slo_words

    first, rate = sized.alone()
    why = alone_sentence(sized.demand.promise, first, rate)
    slo = reachable_slo_words(sized.demand.promise, first, rate)
    output.answer({"kept": False, "first_token_seconds": first, "tokens_per_second": rate, "why": why})
    output.show(f"No number of boxes is enough.\n{why}\n{sized.serving.curve.why}")
    output.next("fleet", "size", *([model] if model else []), "--slo", slo, *typed_words(*_ASKED))
    output.no()


def _ways(model: str | None, use: str, wanted: dict[str, Any]) -> Iterator[ServingBox]:
    """How one box may serve: as it was measured, or as it is planned."""
    from upright.base.errors import UsageError

    if wanted["evidence"]:
        from upright.flows.fleet.measured_boxes import measured_box
        from upright.planning.sizing.serving_boxes import BoxEvidence

        stated = BoxEvidence((), wanted["context"], wanted["streams"], wanted["pool_tokens"])
        return iter((measured_box(wanted["evidence"], stated),))
    if model is None:
        raise UsageError(
            "nothing says how one box serves", hint="name a MODEL and --box to plan it, or --evidence DEPLOYMENT"
        )
    if wanted["pool_tokens"] is not None:
        raise UsageError("--pool-tokens goes with --evidence: a plan counts its cache itself", hint="leave it out")
    from upright.planning.requests.fleet_sizing import planned_configurations
    from upright.planning.requests.plan_arguments import make_plan_request, plan_of_file

    wishes = {name: wish for name, wish in wanted.items() if name != "users"}  # people, not requests at once
    request = make_plan_request(model, named_box(wanted), goal_of({**wishes, "use": use}))
    return planned_configurations(request, streams=wanted["streams"], as_it_is=plan_of_file(model) is not None)
