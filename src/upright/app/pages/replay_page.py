"""A replay, before and after -> the page that a person reads."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from upright.base.terminal.wrapping import print_wrapped
from upright.base.untrusted_text import on_one_line

if TYPE_CHECKING:
    from rich.console import Console

    from upright.evidence.share.repeats import ComparedCell
    from upright.flows.replay.replay import ReplayPlan, ReplayResult


def replay_plan_page(console: Console, plan: ReplayPlan) -> None:
    verification = plan.opened.verification
    print_wrapped(
        console, on_one_line(f"{verification.level}: {verification.model} on {verification.box}, {verification.engine}")
    )
    for difference in plan.differences:
        print_wrapped(console, on_one_line(f"{difference.what}: {difference.claimed} there, {difference.here} here"), 2)
        print_wrapped(console, on_one_line(difference.changes), 4)
    if not plan.differences:
        print_wrapped(console, "nothing differs: the same kind of box, engine and flags", 2)
    for setting in plan.left_out:
        print_wrapped(console, on_one_line(f"left out: {setting.name}: {setting.reason}"), 2)
    for objection in plan.prepared.plan.objections:
        print_wrapped(console, on_one_line(f"it does not fit here: {objection.message}"), 2)
    if plan.prepared.recipe is not None:
        print_wrapped(console, f"runs: {shlex.join(plan.prepared.recipe.argv)}", 2)
    shapes = sum(len(load.shapes) for load in plan.loads)
    rungs = f"climbs to {plan.to}" if plan.to else "climbs no rung"
    loads = "1 shape" if shapes == 1 else f"{shapes} shapes"
    print_wrapped(console, f"measures {loads} of load again, {rungs}", 2)


def replayed_page(console: Console, replayed: ReplayResult) -> None:
    agree = sum(cell.verdict == "agrees" for cell in replayed.cells)
    unclear = sum(cell.verdict == "unclear" for cell in replayed.cells)
    doubt = f", {unclear} cannot be told" if unclear else ""
    print_wrapped(console, f"{agree} of {len(replayed.cells)} figures agree with the claim{doubt}")
    for cell in replayed.cells:
        print_wrapped(console, _cell(cell), 2)
    if not replayed.cells:
        print_wrapped(console, "no cell in common: nothing can be said", 2)
    shared = replayed.shared
    console.print(f"wrote {shared.path}, which links to it", soft_wrap=True, markup=False)
    print_wrapped(
        console, f"signed: {shared.signature}" if shared.signature else "unsigned: --sign KEY says who repeated it", 2
    )


def _cell(cell: ComparedCell) -> str:
    places = 1 if cell.unit == "tok/s" else 4
    figures = f"{cell.claimed:,.{places}f} there, {cell.repeated:,.{places}f} {cell.unit} here"
    return on_one_line(f"{cell.verdict}: {cell.shape}, {cell.metric}: {figures}, {cell.reason}")
