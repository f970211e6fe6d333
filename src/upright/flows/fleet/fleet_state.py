"""The Fleet as it runs, after each part of fleet.yaml that was applied."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from pydantic import ValidationError

from upright.base.errors import LaunchError
from upright.facts.records.fleet import Fleet, FleetBox
from upright.flows.fleet.roll_plan import FleetStep


def with_box(present: Fleet, wanted: Fleet, name: str) -> Fleet:
    """That box as fleet.yaml has it."""
    box = _spelled_out(next(box for box in wanted.boxes if box.name == name), wanted, into=present)
    others = {other.name: other for other in present.boxes} | {name: box}
    order = {other.name: number for number, other in enumerate(wanted.boxes)}
    boxes = sorted(others.values(), key=lambda other: order.get(other.name, len(order)))
    return present.model_copy(update={"boxes": tuple(boxes)})


def without_box(present: Fleet, name: str) -> Fleet:
    left = tuple(box for box in present.boxes if box.name != name)
    return present.model_copy(update={"boxes": left}) if left else present  # a record names at least one


def with_router(present: Fleet, wanted: Fleet) -> Fleet:
    return present.model_copy(update={"router": wanted.router, "client_key": wanted.client_key})


def fleet_at_start(present: Fleet | None, wanted: Fleet, *, running: Collection[str], router_stays: bool) -> Fleet:
    """What `up` begins: boxes that run, and a router that does, stay as they are."""
    if present is None:
        return wanted
    kept = {box.name: _spelled_out(box, present, into=wanted) for box in present.boxes if box.name in running}
    boxes = [kept.pop(box.name, box) for box in wanted.boxes]
    parts = {"boxes": (*boxes, *kept.values())}
    return (with_router(wanted, present) if router_stays else wanted).model_copy(update=parts)


def refuse_impossible(present: Fleet, wanted: Fleet, steps: Iterable[FleetStep]) -> None:
    """A way from one to the other on which some fleet in between could not be: before anything is touched."""
    for step in steps:
        if step.is_router:
            present = with_router(present, wanted)
        elif step.kind == "remove":
            present = without_box(present, step.name)
        else:
            present = with_box(present, wanted, step.name)
        try:
            Fleet.model_validate(present.model_dump())
        except ValidationError as error:
            reason = str(error.errors()[0]["msg"]).removeprefix("Value error, ")
            raise LaunchError(
                f"one roll cannot lead there: after {step.name}, {reason}",
                hint="change the router and the boxes in two",
            ) from None


def _spelled_out(box: FleetBox, of: Fleet, *, into: Fleet) -> FleetBox:
    """The same box in a fleet that would give it another model or goal."""
    changes: dict[str, object] = {}
    if box.goal is None and of.goal != into.goal:
        changes["goal"] = of.goal
    if box.model is None and box.recipe is None and of.model != into.model:
        changes["model"] = of.model
    return box.model_copy(update=changes) if changes else box
