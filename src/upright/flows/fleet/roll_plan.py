"""Steps of a rolling update from what runs to fleet.yaml, in an order in which each port is free."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from upright.base.errors import LaunchError, UprightError
from upright.facts.records.deployment import RUNNING, Deployment
from upright.facts.records.fleet import HERE, Fleet, FleetBox, FleetState, Phase, RollStep, StepKind
from upright.facts.records.recipe import Recipe
from upright.flows.fleet.box_plans import BoxPlan
from upright.flows.fleet.boxes import (
    deployment_in_place,
    deployment_of,
    moved_reason,
    running_deployment,
    same_start,
    started_deployment,
)
from upright.flows.fleet.directory import FleetDir
from upright.flows.fleet.router_control import running_router, wanted_router_recipe
from upright.flows.line import Prepared
from upright.serving.launch import status

ROUTER_STEP = "router"
UNFINISHED: tuple[Phase, ...] = (
    "draining", "stopping", "starting", "restarting", "proving", "admitting", "stepping back",
)  # fmt: skip
_FOLLOWING = ("--max-concurrent-requests", "--queue-size", "--balance-abs-threshold")
"""Limits that follow from the boxes: a router is not restarted for them, they come with its next start."""
_SHOWN = 4
_ORDER: dict[StepKind, int] = {"add": 0, "recipe": 1, "restart": 1, "move": 1, "remove": 2, "router": 3}
Place = tuple[str, int]
"""A machine as fleet.yaml names it, and a port there."""
StepKey = tuple[str, bool]
"""A box's name, or the router's: a box may be called router too."""


@dataclass(frozen=True)
class FleetStep:
    """One thing that a roll would do."""

    kind: StepKind
    name: str
    details: tuple[str, ...]
    """What differs, in words."""
    box: FleetBox | None = None
    """As fleet.yaml has it; None for one that leaves, and for the router."""
    prepared: Prepared | None = None
    recipe: Recipe | None = None
    """What it is to run with; None for one that leaves."""
    takes: frozenset[Place] = frozenset()
    holds: frozenset[Place] = frozenset()
    """Ports that it has now, and leaves when it is done."""
    answers: bool = False
    """Whether clients are sent to it now."""

    @property
    def is_router(self) -> bool:
        return self.kind == "router"

    @property
    def key(self) -> StepKey:
        return self.name, self.is_router

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "details": list(self.details)}

    def __str__(self) -> str:
        titles = {
            "add": "joins", "remove": "leaves: it is drained and stopped", "move": "goes elsewhere",
            "recipe": "gets another recipe", "restart": "is restarted", "router": "is restarted",
        }  # fmt: skip
        details = f" ({', '.join(self.details)})" if self.details else ""
        return f"{self.name} {titles[self.kind]}{details}"


def roll_steps(
    fleet: Fleet, directory: FleetDir, plans: Iterable[BoxPlan], *, again: bool = False
) -> tuple[FleetStep, ...]:
    """`again` also restarts boxes that are as they should be. LaunchError if no order leaves each port to one."""
    state = directory.state()
    left = unfinished(state)
    steps = [step for plan in plans if (step := _of_box(plan, state, left, again=again)) is not None]
    named = {box.name for box in fleet.boxes}
    steps += [
        FleetStep("remove", known.name, (), holds=_held(deployment_of(known)))
        for known in state.boxes
        if known.name not in named
    ]
    router = _of_router(fleet, directory, begun=(ROUTER_STEP, True) in left)
    return _ordered([*steps, *([router] if router else [])], left, first=running_router(directory) is None)


def key_of(step: RollStep) -> StepKey:
    return step.box, step.kind == "router"


def unfinished(state: FleetState) -> dict[StepKey, RollStep]:
    """Steps of an interrupted roll that were begun."""
    if state.roll is None or state.roll.outcome != "going on":
        return {}
    return {key_of(step): step for step in state.roll.steps if step.phase in UNFINISHED}


def _of_box(plan: BoxPlan, state: FleetState, left: dict[StepKey, RollStep], *, again: bool) -> FleetStep | None:
    box, known = plan.box, state.box(plan.box.name)
    recipe = plan.prepared.recipe if plan.prepared else None
    here = deployment_of(known)
    takes = frozenset({(box.at, box.port)})
    joins = FleetStep("add", box.name, (f"at {box.at}, port {box.port}",), box, plan.prepared, recipe, takes)
    if here is None:
        return joins
    changed = replace(joins, holds=_held(here), answers=known.admitted and running_deployment(known) is not None)
    if deployment_in_place(box, known.deployment) is None:
        complaint = moved_reason(box, here.read(Deployment)) or ""
        return replace(changed, kind="move", details=(complaint,))
    changes = recipe_changes(here.read(Recipe), recipe) if recipe is not None else ("no recipe",)
    if changes:
        return replace(changed, kind="recipe", details=changes)
    why = (
        "it does not run" if running_deployment(known) is None
        else "an interrupted roll left it" if joins.key in left
        else "the router does not list it" if not known.admitted
        else "asked for" if again and not _done(state, box.name) else None
    )  # fmt: skip
    return replace(changed, kind="restart", details=(why,)) if why else None


def _done(state: FleetState, name: str) -> bool:
    """An interrupted roll has been there already."""
    steps = state.roll.steps if state.roll is not None and state.roll.outcome == "going on" else ()
    return any(key_of(step) == (name, False) and step.phase == "done" for step in steps)


def _of_router(fleet: Fleet, directory: FleetDir, *, begun: bool) -> FleetStep | None:
    state = directory.state()
    known = started_deployment(state.router)
    if known is not None and moved_reason(fleet.router, now := status(known)) is not None and now.state in RUNNING:
        details: tuple[str, ...] = (moved_reason(fleet.router, now) or "",)
    elif running_router(directory) is None:
        details = ("it does not run",)
    else:
        details = ("an interrupted roll left it",) if begun else ()
    try:
        wanted = wanted_router_recipe(fleet, directory)
    except UprightError:
        if not any(running_deployment(box) for box in state.boxes):
            return None  # nothing runs that it could be in front of
        raise
    if not details:
        assert known is not None
        limits = fleet.router.requests_at_once != directory.fleet().router.requests_at_once
        details = recipe_changes(known.read(Recipe), wanted, following=() if limits else _FOLLOWING)
        if known.key() != directory.wanted_client_key(fleet.client_key):
            details = (*details, "another client key")
    if not details:
        return None
    at, router = fleet.router.at, fleet.router
    takes = frozenset({(at, router.port), (at, router.metrics_port)})
    holds = _held(known) | _metrics_of(known)
    return FleetStep("router", ROUTER_STEP, details, recipe=wanted, takes=takes, holds=holds)


def recipe_changes(present: Recipe, wanted: Recipe, following: tuple[str, ...] = ()) -> tuple[str, ...]:
    """What differs between two starts, in words; nothing if they are the same."""
    if same_start(present, wanted):
        return ()
    changes = [
        f"{name.replace('_', ' ')} {getattr(present, name)} -> {getattr(wanted, name)}"
        for name in ("engine", "engine_version", "runtime", "program", "image", "host", "port")
        if getattr(present, name) != getattr(wanted, name)
    ]
    for part in ("arguments", "environment"):
        before, after = ({setting.name: setting.value for setting in getattr(one, part)} for one in (present, wanted))
        changes += [
            _setting_change(name, before, after)
            for name in {**before, **after}
            if before.get(name, "") != after.get(name, "") and name not in ("--host", "--port", *following)
        ]
    if not changes and not following:
        changes = ["the order of its flags"]
    more = len(changes) - _SHOWN
    return tuple(changes[:_SHOWN] + ([f"{more} more"] if more > 0 else []))


def _setting_change(name: str, before: dict[str, str | None], after: dict[str, str | None]) -> str:
    if name not in after:
        return f"without {name}"
    if name not in before:
        return f"with {name} {after[name] or ''}".strip()
    return f"{name} {before[name]} -> {after[name]}"


def _held(here: Any) -> frozenset[Place]:
    if here is None or status(here).state not in RUNNING:
        return frozenset()
    machine = here.read(Deployment).machine
    return frozenset({(HERE if machine is None else f"ssh:{machine}", here.read(Recipe).port)})


def _metrics_of(router: Any) -> frozenset[Place]:
    if router is None or status(router).state not in RUNNING:
        return frozenset()
    machine, arguments = router.read(Deployment).machine, router.read(Recipe).arguments
    ports = (int(setting.value or 0) for setting in arguments if setting.name == "--prometheus-port")
    return frozenset((HERE if machine is None else f"ssh:{machine}", port) for port in ports)


def _ordered(steps: list[FleetStep], left: dict[StepKey, RollStep], *, first: bool) -> tuple[FleetStep, ...]:
    """Boxes join, and are back, before others are drained, and leave last; what was begun comes first, and so does a
    router that is down. A step waits for whoever has its port."""

    def rank(step: FleetStep) -> tuple[bool, bool, bool, int]:
        brings = not step.answers and step.kind not in ("remove", "router")
        return not (first and step.is_router), not brings, step.key not in left, _ORDER[step.kind]

    waiting, ordered = sorted(steps, key=rank), []
    while waiting:
        step = next(
            (step for step in waiting if not any(step.takes & other.holds for other in waiting if other is not step)),
            None,
        )
        if step is None:
            raise LaunchError(
                f"{' and '.join(step.name for step in waiting)} want each other's ports",
                hint="give one of them a free port first, roll, and then the port that it is to have",
            )
        waiting.remove(step)
        ordered.append(step)
    return tuple(ordered)
