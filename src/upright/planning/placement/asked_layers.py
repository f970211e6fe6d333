"""`--place`: how many layers of routed experts a person wants on the GPUs, and where that cannot be."""

from __future__ import annotations

import re

from upright.base.errors import UsageError
from upright.facts.records.box import Box
from upright.facts.records.plan import Objection, Plan
from upright.planning.placement.devices import gpus

NONE, FILLED = "none", "filled"
NO_PLACE, NO_EXPERT_LAYERS = "no-place", "no-expert-layers"
_LAYERS = re.compile(r"\d{1,4}(\+\d{1,4})*")
_HINT = "--place none, --place filled, or so many layers on each GPU: --place 3+3"


def layers_asked(place: str | None) -> tuple[int, ...] | None:
    """On the first GPUs, none on the others; None: as many as there is room for."""
    if place in (None, FILLED):
        return None
    return () if place == NONE else tuple(map(int, place.split("+")))


def check_place(place: str | None, box: Box) -> None:
    """What no plan on this box could answer is the caller's mistake."""
    if place is None:
        return
    if place not in (NONE, FILLED) and not _LAYERS.fullmatch(place):
        raise UsageError(f"{place} is no placement of experts", hint=_HINT)
    devices = gpus(box)
    if not devices or any(device.unified for device in devices):
        raise UsageError(f"{box.name} has no GPU with memory of its own: experts have one place there")
    if len(layers_asked(place) or ()) > len(devices):
        counted = "1 GPU" if len(devices) == 1 else f"{len(devices)} GPUs"
        raise UsageError(f"{place} is of {len(layers_asked(place) or ())} GPUs, the box has {counted}", hint=_HINT)


def refuse_needless(plan: Plan) -> None:
    """Where nothing can be placed as was asked, whatever else stands against the best plan."""
    for objection in plan.objections:
        if objection.code in (NO_PLACE, NO_EXPERT_LAYERS):
            raise UsageError(f"--place {plan.goal.place}: {objection.message}", hint=objection.remedy)


def place_objection(plan: Plan, layers: int, *, whole: bool) -> Objection | None:
    """Against a place for the experts of so many layers; `whole`: with all of them the GPUs hold the model."""
    asked, there = layers_asked(plan.goal.place), sum(budget.device != "host" for budget in plan.budgets)
    if plan.goal.place is None:
        return None
    if not layers:
        message = f"{plan.model} has no routed experts"
    elif whole:
        message = f"{plan.model} fits wholly on the GPUs, and is fastest there"
    elif len(asked or ()) > there:  # of GPUs of several kinds some are left idle
        message = f"{there} of the GPUs would be used"
    elif sum(asked or ()) > layers:
        message = f"{plan.model} has {layers} layers of experts"
    else:
        return None
    return Objection(code=NO_PLACE, message=message, remedy="leave out --place")
