"""`upright fleet size`."""

from __future__ import annotations

import contextlib
import math
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from upright.cli.options import Number, Tokens, given
from upright.cli.output import Output, note, output_options, page_width, say
from upright.cli.planned import MACHINE, artifacts_of, box_named, box_options, goal_of

if TYPE_CHECKING:
    from upright.records.benchmark import Benchmark
    from upright.records.box import Box
    from upright.records.model import Model
    from upright.records.plan import Parallel, Plan, Use
    from upright.sizing.answer import Serving
    from upright.sizing.capacity import Demand, Promise

USES = ("coding-agent", "chat", "batch", "long-documents")
CHUNK_TOKENS = 2048
_AT_ONCE = (1, 2, 4, 8, 16, 32, 64)
"""Requests at once that a box is planned for, until it has no room for so many."""
_ENOUGH = {True: "enough", False: "too few"}
_ENGINE = ("engine", "engine_version", "kv_dtype", "image")
_ASKED = (
    "users", "use", "evidence", *MACHINE, "context", *_ENGINE, "streams", "pool_tokens", "usage", "price", "host_watts",
    "seed",
)  # fmt: skip
"""Everything of a call but its promise."""


class Pairs(click.ParamType[dict[str, float]]):
    """ttft=5s,rate=20: names and numbers; 5s, 30m and 64k are numbers too."""

    name = "pairs"

    def __init__(self, *known: str) -> None:
        self.known = known

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> dict[str, float]:
        if isinstance(value, dict):
            return value
        found = {}
        for part in str(value).split(","):
            name, _, text = part.partition("=")
            name = name.strip().replace("-", "_")
            if self.known and name not in self.known:
                self.fail(f"{name or part!r} is not one of {', '.join(self.known)}", param, ctx)
            found[name] = self._number(text.strip(), part, param, ctx)
        return found

    def _number(self, text: str, part: str, param: click.Parameter | None, ctx: click.Context | None) -> float:
        from upright.units import parse_duration, parse_tokens

        readers: tuple[Callable[[str], float], ...] = (float, parse_duration, parse_tokens)
        for read in readers:
            with contextlib.suppress(ValueError):
                return Number().convert(read(text), param, ctx)
        return self.fail(f"{part!r} is no name and number; write {(self.known or ('turns',))[0]}=5", param, ctx)


@click.command(name="size")
@click.argument("model", required=False, metavar="[MODEL|PLAN]")
@click.option("--users", type=click.IntRange(1), required=True, help="People who use it at once, thinking included.")
@click.option("--use", type=click.Choice(USES), default=USES[0], show_default=True, help="What they do.")
@click.option(
    "--slo",
    type=Pairs("ttft", "rate", "share"),
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
@click.option("--context", type=Tokens(), help="Tokens of context that are served, such as 64k.  [default: by the use]")
@click.option("--engine", help="Only this engine.")
@click.option("--engine-version", help="Only this version of it, such as 0.32.0.")
@click.option("--kv-dtype", help="Type of the KV cache, as the engine spells it.")
@click.option("--image", help="Container image, as in the catalogue: its patches decide cache type and speed.")
@click.option(
    "--streams",
    type=click.IntRange(1),
    help="Sequences that an engine runs at once: if evidence does not say, or of one with slots instead of the best.",
)
@click.option("--pool-tokens", type=Tokens(), help="Tokens that its cache holds, if evidence does not say.")
@click.option("--usage", type=Pairs(), default={}, help="What your people do instead: turns=40,thinking_seconds=2m,...")
@click.option("--price", type=Pairs("hour", "kwh", "box"), default={}, help="Money: hour=12.5,kwh=0.3,box=90000.")
@click.option("--host-watts", type=Number(min=0), help="What a box takes beside its GPUs.")
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
    from upright.catalog import get
    from upright.catalog.rows.usage import UsageRow
    from upright.cli.sizing_page import sizing_page
    from upright.sizing.answer import best_way, sizing
    from upright.sizing.capacity import Demand
    from upright.sizing.habits import figures_of, usage_of

    promise = _promise(wanted["slo"])
    row = get("usages", use)
    assert isinstance(row, UsageRow)
    figures = figures_of(row, wanted["usage"])
    ways = _ways(model, use, wanted)
    first = next(ways)
    demand = Demand(users, usage_of(row, figures, first.context_tokens), promise, wanted["seed"])
    serving, found = best_way(demand, chain([first], ways), on_trial=_tell)
    made = (
        None
        if found is None
        else sizing(
            demand,
            use,
            serving,
            figures,
            prices=wanted["price"],
            host_watts=wanted["host_watts"],
            found=found,
            on_trial=_tell,
        )
    )
    if made is None:
        _refuse(output, model, demand, serving)
        return
    if output.wants_record:
        output.answer(made)
    output.show(sizing_page(made, page_width(), why=why))
    _tell_unused(serving, wanted)
    if serving.at_once is None or model is None:
        output.next("bench")
    elif Path(model).is_file():
        output.next("render", model, *given(*MACHINE))
    else:
        at_once = ["--users", str(serving.at_once)] if serving.at_once > 1 else []
        output.next("plan", model, *given(*MACHINE, "use", "context", *_ENGINE), *at_once)


def _tell_unused(serving: Serving, wanted: Mapping[str, Any]) -> None:
    from upright.sizing.costs import unused

    if names := unused(serving.box, wanted["price"], wanted["host_watts"]):
        is_or_are = "is" if len(names) == 1 else "are"
        note(f"{' and '.join(names)} {is_or_are} in no cost: what the GPUs take is not known")


def _promise(said: Mapping[str, float]) -> Promise:
    from upright.errors import UsageError
    from upright.sizing.capacity import Promise

    share = said.get("share", 0.95)
    if not 0 < share < 1 or said.get("ttft", 5.0) <= 0 or said.get("rate", 20.0) < 0:
        raise UsageError("a promise is a time, a rate and a share below 1", hint="--slo ttft=5s,rate=20,share=0.95")
    return Promise(said.get("ttft", 5.0), said.get("rate", 20.0), share)


def _tell(what: str, boxes: int, kept: bool) -> None:
    if sys.stderr.isatty():
        say(f"{what}: {boxes:,} box{'es' if boxes > 1 else ''} {'are' if boxes > 1 else 'is'} {_ENOUGH[kept]}")


def _refuse(output: Output, model: str | None, demand: Demand, serving: Serving) -> None:
    from upright.sizing.capacity import trial
    from upright.units import duration

    alone = trial(replace(demand, users=1), serving.service, 1)
    first = alone.first_token_seconds.quantile(demand.promise.share) or 0.0
    rate = alone.tokens_per_second.quantile(1 - demand.promise.share) or 0.0
    share = f"{demand.promise.share:.0%}"
    words = f"one user alone: first token within {duration(first)}, {rate:.1f} tok/s or more, for {share}"
    if output.wants_record:
        output.answer({"kept": False, "first_token_seconds": first, "tokens_per_second": rate, "why": words})
    output.show(f"No number of boxes is enough.\n{words}\n{serving.curve.why}")
    output.next(
        "fleet", "size", *([model] if model else []), "--slo", _kept(demand.promise, first, rate), *given(*_ASKED)
    )
    output.no()


def _kept(promise: Promise, first: float, rate: float) -> str:
    """What was asked for, as far as one user alone has it with some room."""
    within = max(promise.first_token_seconds, math.ceil(12 * first) / 10)
    share = "" if promise.share == type(promise).share else f",share={promise.share:g}"
    return f"ttft={within:g}s,rate={min(promise.tokens_per_second, int(0.8 * rate)):g}{share}"


def _ways(model: str | None, use: str, wanted: dict[str, Any]) -> Iterator[Serving]:
    """How one box may serve: as it was measured, or planned for one at once, for two, for four, as far as that fits."""
    from upright.errors import UsageError

    if wanted["evidence"]:
        yield _measured(wanted)
    elif model is None:
        raise UsageError(
            "nothing says how one box serves", hint="name a MODEL and --box to plan it, or --evidence DEPLOYMENT"
        )
    else:
        yield from _planned(model, use, wanted)


def _planned(model: str, use: str, wanted: dict[str, Any]) -> Iterator[Serving]:
    from upright.cli.planned import measurements, plan_of_file
    from upright.engines import slotted
    from upright.errors import UprightError, UsageError
    from upright.planning import plan
    from upright.sizing.planned import takes_what_fits

    if wanted["pool_tokens"] is not None:
        raise UsageError("--pool-tokens goes with --evidence: a plan counts its cache itself", hint="leave it out")
    goal, box = goal_of({**wanted, "use": use}), wanted["box"]
    of_file = plan_of_file(model)
    if of_file is not None:
        model, box, goal = of_file[0], box or of_file[1], of_file[2]
    if wanted["streams"] is not None:
        goal = goal.model_copy(update={"users": wanted["streams"]})
    tried = (goal.users,) if of_file is not None or wanted["streams"] is not None else _AT_ONCE
    machine, chosen = box_named(box, *(wanted[name] for name in MACHINE[1:])), artifacts_of(model)
    seen: list[tuple[Parallel, int]] = []
    for at_once in tried:
        best = plan(
            machine,
            chosen.model,
            goal.model_copy(update={"users": at_once}),
            choose_from=chosen.choose_from,
            others=chosen.others,
            measured=measurements(),
        )[0]
        if not best.fits and seen:
            return
        if not best.fits:
            raise UprightError(
                f"{best.model} does not fit on {best.box}: {best.objections[0].message}",
                hint="upright plan says what would",
            )
        if wanted["streams"] is not None and takes_what_fits(best):
            raise UsageError(
                f"--streams is not for {best.engine}: it runs as many as its cache has room for",
                hint=f"leave it out, or plan --engine {slotted()}",
            )
        if (way := (best.parallel, best.kv.planned_tokens if not takes_what_fits(best) else 0)) not in seen:
            seen.append(way)
            artifact = next(each for each in (chosen.model, *chosen.choose_from) if each.name == best.model)
            why = "which needs the fewest of those tried" if len(tried) > 1 else "as asked"
            yield _serving(best, artifact, machine, at_once, why)


def _serving(best: Plan, artifact: Model, machine: Box, at_once: int, why: str) -> Serving:
    from upright.sizing.answer import Serving, curve_of
    from upright.sizing.planned import planned_service

    found = planned_service(best, artifact, machine)
    notes = found.notes
    if at_once > 1:
        notes = (*notes, f"each box as upright plan --users {at_once} has it, {why}")
    curve = curve_of(
        found.service,
        basis="derived",
        why=found.why,
        low_factor=found.low_factor,
        high_factor=found.high_factor,
        notes=notes,
    )
    return Serving(
        found.service,
        curve,
        best.context_tokens,
        fast=found.fast,
        slow=found.slow,
        model=best.model,
        box_name=best.box,
        box=machine,
        made_from=best.made_from,
        at_once=at_once,
    )


def _measured(wanted: dict[str, Any]) -> Serving:
    from upright.errors import UsageError
    from upright.sizing.answer import Serving, curve_of
    from upright.sizing.measured import measured_service

    records: list[Benchmark] = []
    context, streams, pool, box = wanted["context"], wanted["streams"], wanted["pool_tokens"], None
    for each in wanted["evidence"]:
        found, known = _benchmarks(each)
        records += found
        context = context or known.get("context")
        streams = streams or known.get("streams")
        pool = pool or known.get("pool")
        box = box or known.get("box")
    if len(models := {record.model for record in records}) > 1:
        raise UsageError(
            f"the evidence is of several models: {', '.join(sorted(models))}",
            hint="one curve is of one model on one box",
        )
    cells = [cell for record in records for cell in record.cells]
    done = measured_service(cells, pool_tokens=pool, streams=streams, step_prompt_tokens=CHUNK_TOKENS)
    longest = context or done.service.pool_tokens
    curve = curve_of(done.service, basis="measured", why=done.why, notes=done.notes)
    return Serving(
        done.service,
        curve,
        longest,
        model=records[0].model,
        box_name=box.name if box else None,
        box=box,
        made_from=tuple(record.reference for record in records),
    )


def _benchmarks(text: str) -> tuple[list[Benchmark], dict[str, Any]]:
    """The records, and what else the deployment knows: context, streams, pool, box."""
    from upright.errors import UsageError
    from upright.records.benchmark import Benchmark
    from upright.records.loading import load

    if Path(text).is_file():
        return [load(Path(text), Benchmark)], {}
    from upright import store
    from upright.benchmarking.bench import kept
    from upright.engines import has_slots
    from upright.records.box import Box
    from upright.records.recipe import Recipe

    directory = store.find(text)
    records = list(kept(directory))
    if not records:
        raise UsageError(f"{text} was never benchmarked", hint=f"upright bench {text} --workload knee")
    recipe = directory.read(Recipe)
    known = {
        "context": recipe.context_tokens,
        "box": directory.read(Box) if (directory.path / "box.json").exists() else None,
    }
    if has_slots(recipe.engine):
        known |= {"streams": recipe.users, "pool": recipe.context_tokens * recipe.users}
    return records, known
