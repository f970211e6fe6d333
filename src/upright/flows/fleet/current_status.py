"""Status of a fleet: each box by itself and as the router sees it, and what a roll left."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

from upright.base.errors import EndpointError, UprightError
from upright.facts.records.deployment import RUNNING
from upright.facts.records.fleet import Fleet, FleetBox
from upright.facts.records.recipe import Recipe
from upright.flows.fleet.box_plans import for_all_boxes
from upright.flows.fleet.boxes import deployment_of, in_flight, running_deployment, started_deployment, url_of
from upright.flows.fleet.directory import FleetDir
from upright.flows.fleet.router_api import Worker, look_at_cut_answers, router_past, workers
from upright.serving.launch import status


@dataclass(frozen=True)
class BoxStatus:
    """One box now. What is None is not known."""

    box: str
    at: str
    deployment: str | None
    state: str
    in_flight: int | None
    admitted: bool
    router: str | None
    """What the router says of it; None if it does not list it."""
    engine: str | None
    recipe: str | None
    """sha256 of the recipe it runs with."""
    reason: str | None
    restarts: int = 0
    """How often its supervisor started it again since `up` or a roll."""


@dataclass(frozen=True)
class FleetStatus:
    """The whole fleet now."""

    name: str
    router: dict[str, Any]
    boxes: tuple[BoxStatus, ...]
    roll: str | None
    """What the last roll left, in words; None if there is nothing to say."""
    left: tuple[str, ...] = ()
    """Deployments that run though fleet.yaml no longer names their box."""
    cut_answers: int | None = None
    """Answers that a failing box cut since `up`; None if the router never said."""
    at_work: bool = False
    """Whether another command changes it now."""

    @property
    def well(self) -> bool:
        """Every box answers and gets requests, and the router too."""
        seen = all(box.state == "ready" and box.admitted and box.router == "ready" for box in self.boxes)
        return seen and self.router.get("state") == "ready"

    @property
    def broken(self) -> str | None:
        """The first deployment that does not answer."""
        return next((box.deployment for box in self.boxes if box.state in ("failed", "hung", "degraded")), None)

    @property
    def wants(self) -> Literal["time", "roll", "diagnosis", "up"]:
        """What a fleet that is not well needs."""
        states = {self.router.get("state"), *(box.state for box in self.boxes)}
        if self.at_work or (self.broken is None and states & {"pulling", "starting", "loading"}):
            return "time"
        if self.roll or self.left:
            return "roll"
        return "diagnosis" if self.broken is not None else "up"

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "well": self.well}


def fleet_status(fleet: Fleet) -> FleetStatus:
    directory = FleetDir(fleet.name)
    state, keys = directory.state(), directory.keys()
    router: dict[str, Any] = {"state": "never started"}
    seen: dict[str, Worker] = {}
    here = started_deployment(state.router)
    if here is not None:
        now = status(here)
        router = {
            "deployment": now.name, "state": now.state, "base_url": now.base_url,
            "engine": f"{now.engine} {now.engine_version}", "reason": now.reason, "answers": False,
            "brought_back": router_past(directory).brought_back,
        }  # fmt: skip
        if now.state in RUNNING:
            try:
                seen = workers(now.base_url, keys)
                router["answers"] = True
            except EndpointError as error:
                router["reason"] = router["reason"] or error.message
    boxes = for_all_boxes(lambda box: _box(fleet, directory, box, seen), fleet.boxes)
    named = {box.name for box in fleet.boxes}
    left = [deployment.name for box in state.boxes if box.name not in named and (deployment := running_deployment(box))]
    past = look_at_cut_answers(fleet, directory) if router.get("answers") else router_past(directory)
    return FleetStatus(
        fleet.name, router, tuple(boxes), _roll(directory), tuple(left), past.cut_answers, directory.somebody_at_work()
    )


def _box(fleet: Fleet, directory: FleetDir, box: FleetBox, seen: dict[str, Worker]) -> BoxStatus:
    known = directory.state().box(box.name)
    here = deployment_of(known)
    if here is None:
        return BoxStatus(box.name, box.at, None, "never started", None, False, None, None, None, None)
    try:
        now, recipe = status(here), here.read(Recipe)
    except UprightError as error:
        return BoxStatus(
            box.name, box.at, here.name, "unreadable", None, known.admitted, None, None, None, error.message
        )
    worker = seen.get(url_of(fleet, now, recipe))
    return BoxStatus(
        box=box.name,
        at=box.at,
        deployment=here.name,
        state=now.state,
        in_flight=in_flight(here) if now.state in RUNNING else None,
        admitted=known.admitted,
        router=worker.status if worker else None,
        engine=f"{now.engine} {now.engine_version or ''}".strip(),
        recipe=recipe.digest,
        reason=now.reason,
        restarts=now.restarts,
    )


def _roll(directory: FleetDir) -> str | None:
    last = directory.state().roll
    if last is None or last.outcome == "done":
        return None
    if last.outcome == "stopped":
        return f"the last roll was stopped: {last.reason}"
    step = last.steps[-1] if last.steps else None
    where = f" at {step.box}, {step.phase}" if step else ""
    return f"a roll is {'going on' if directory.somebody_at_work() else 'interrupted'}{where}"
