"""A fleet's plans, differences, look, roll or end -> the page that a person reads."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from rich.text import Text

from upright.app.pages.deployment_pages import coloured, table_of
from upright.base.units import format_tokens

if TYPE_CHECKING:
    from rich.console import Console

    from upright.facts.records.deployment import Deployment
    from upright.facts.records.fleet import Roll
    from upright.flows.fleet.box_plans import BoxPlan
    from upright.flows.fleet.current_status import FleetStatus
    from upright.flows.fleet.roll_plan import FleetStep


def plans_page(console: Console, plans: Iterable[BoxPlan], steps: Sequence[FleetStep] | None = None) -> None:
    """A row for each box, then what stands in the way; of a fleet that runs, what a roll would do."""
    table = table_of("box", "at", "model", "engine", "context", "tok/s", "fits")
    reasons = []
    for box_plan in plans:
        plan = box_plan.prepared.plan if box_plan.prepared else None
        problem = (
            box_plan.problem.message
            if box_plan.problem
            else plan.objections[0].message
            if plan and not plan.fits
            else ""
        )
        if plan is None:
            table.add_row(box_plan.box.name, box_plan.box.at, "-", "-", "-", "-", "unknown")
        else:
            best = plan.speed.decode.best if plan.speed else None
            context = f"{plan.goal.users} x {format_tokens(plan.context_tokens)}"
            engine = f"{plan.engine} {plan.engine_version or ''}".strip()
            speed, fits = "-" if best is None else f"{best:.0f}", "yes" if box_plan.ready else "no"
            table.add_row(box_plan.box.name, box_plan.box.at, plan.model, engine, context, speed, fits)
        reasons += [f"{box_plan.box.name}: {problem}"] if problem else []
    console.print(table)
    for reason in reasons:
        console.print(reason, markup=False)
    if steps is not None:
        steps_page(console, steps)


def steps_page(console: Console, steps: Sequence[FleetStep]) -> None:
    """What a roll would do, in its order."""
    if not steps:
        console.print("what runs is what fleet.yaml asks for")
    for number, step in enumerate(steps):
        title = "a roll would do this, in this order:\n" if number == 0 else ""
        console.print(Text(f"{title}  {number + 1}. {step}"))


def status_page(console: Console, seen: FleetStatus) -> None:
    router = seen.router
    where = f" at {router['base_url']}/v1" if router.get("answers") else ""
    back = f", brought back {_times(router['brought_back'])}" if router.get("brought_back") else ""
    reason = f", {router['reason']}" if router.get("reason") else ""
    console.print(Text.assemble(f"{seen.name}: router ", coloured(router["state"]), f"{where}{back}{reason}"))
    table = table_of("box", "at", "state", "in flight", "router says", "engine", "recipe")
    for box in seen.boxes:
        flight = "-" if box.in_flight is None else str(box.in_flight)
        says = box.router or ("not listed" if box.admitted else "off the list")
        recipe = (box.recipe or "-")[:8]
        table.add_row(box.box, box.at, coloured(box.state), flight, coloured(says), box.engine or "-", recipe)
    console.print(table)
    for box in seen.boxes:
        again = f"started again {_times(box.restarts)}" if box.restarts else ""
        told = "; ".join(filter(None, (box.reason if box.state != "ready" else None, again)))
        if told:
            console.print(Text(f"{box.box}: {told}"))


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def roll_page(console: Console, roll: Roll) -> None:
    if roll.steps:
        table = table_of("box", "step", "phase", "from", "to")
        for step in roll.steps:
            recipes = ((recipe_id or ":-").partition(":")[2][:8] for recipe_id in (step.before, step.after))
            table.add_row(step.box, step.kind, step.phase, *recipes)
        console.print(table)
    outcome_texts = {"done": "everything is as fleet.yaml asks", "going on": "going on"}
    console.print(Text(outcome_texts.get(roll.outcome, f"stopped: {roll.reason}")))


def ended_page(console: Console, ended: Iterable[Deployment]) -> None:
    table = table_of("deployment", "state", "why")
    for deployment in ended:
        table.add_row(deployment.name, coloured(deployment.state), deployment.reason or "")
    console.print(table)
