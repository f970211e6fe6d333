"""plan: a model, a box and a goal -> what fits, as a page or as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from upright.cli.output import Output, output_options

if TYPE_CHECKING:
    from rich.console import Console

    from upright.records.box import Box
    from upright.records.plan import Plan


class Tokens(click.ParamType[int]):
    """65536 or 64k."""

    name = "tokens"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        from upright.units import parse_tokens

        if isinstance(value, int):
            return value
        try:
            count = parse_tokens(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)
        if count < 1:
            self.fail("a context has at least one token", param, ctx)
        return count


@click.command(name="plan")
@click.argument("model")
@click.option("--box", default=None, help="Another machine than this one: a catalogue name.")
@click.option("--context", type=Tokens(), default=None, help="Tokens of context for each user: 65536 or 64k.")
@click.option("--users", type=click.IntRange(min=1), default=1, show_default=True, help="Requests at once.")
@click.option("--engine", default=None, help="Only this engine.")
@click.option("--kv-dtype", default=None, help="Only this type of the KV cache, as the engine spells it.")
@output_options
def command(
    output: Output,
    model: str,
    box: str | None,
    context: int | None,
    users: int,
    engine: str | None,
    kv_dtype: str | None,
) -> None:
    """Say whether the model fits, with how much context."""
    from importlib import import_module

    from upright.planning import plan
    from upright.records.plan import Goal

    goal = Goal(context_tokens=context, users=users, engine=engine, kv_dtype=kv_dtype)
    plans = plan(_box(box), import_module("upright.reading").read(model), goal)
    fits = any(found.fits for found in plans)
    record = {"fits": fits, "plans": [{**found.to_dict(), "fits": found.fits} for found in plans]}
    output.answer(record, lambda console: _page(console, plans[0]))
    if not fits:
        output.no()
    words = [] if context is None else ["--context", str(context)]
    output.next("up", model, *words)


def _box(name: str | None) -> Box:
    from upright.errors import UsageError
    from upright.host import LocalHost
    from upright.probing import probe

    if name is None:
        return probe(LocalHost())
    raise UsageError(f"no box named {name}", hint="leave --box out to plan for this machine")


def _page(console: Console, plan: Plan) -> None:
    from upright.units import memory, tokens

    console.print(f"{plan.model} on {plan.box} with {plan.engine}: {'fits' if plan.fits else 'does not fit'}")
    for line in plan.ledger:
        console.print(f"  {line.device:<6} {line.term:<10} {memory(line.bytes):>10}  {line.basis}", soft_wrap=True)
    console.print(f"  {tokens(plan.kv.capacity_tokens)} tokens fit; {plan.kv.bytes_per_token:,} B each")
    for objection in plan.objections:
        console.print(f"  {objection.code}: {objection.message}", soft_wrap=True)
        if objection.remedy:
            console.print(f"    try {objection.remedy}", soft_wrap=True)
