"""Plans of all boxes of a fleet at once: probe, read, plan and render, as for one box."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from upright.base.errors import UprightError, UsageError
from upright.base.progress import Tell
from upright.facts.records.box import Box
from upright.facts.records.fleet import Fleet, FleetBox
from upright.facts.records.loading import load
from upright.facts.records.recipe import Recipe
from upright.flows.line import LaunchTarget, Prepared, prepare_model, prepare_recipe
from upright.planning.probing import probe
from upright.planning.rendering.image import image_named
from upright.planning.rendering.recipe import RenderOptions
from upright.planning.requests.plan_arguments import NamedBox, artifacts_of, box_named, weights_path
from upright.planning.requests.plan_request import PlanRequest
from upright.planning.requests.preparation import prepare
from upright.serving.launch import refuse_missing_runtime

T = TypeVar("T")
_AT_ONCE = 32
"""Boxes that are spoken to at once."""


@dataclass(frozen=True)
class BoxPlan:
    """One box of the fleet: what it would run, or why that is not known."""

    box: FleetBox
    prepared: Prepared | None
    problem: UprightError | None = None

    @property
    def ready(self) -> bool:
        return self.prepared is not None and self.prepared.recipe is not None

    def to_dict(self) -> dict[str, Any]:
        prepared = self.prepared
        return {
            "box": self.box.name,
            "at": self.box.at,
            "fits": self.ready,
            "problem": self.problem.message if self.problem else None,
            "plan": prepared.plan.to_dict() if prepared else None,
            "recipe": prepared.recipe.to_dict() if prepared and prepared.recipe else None,
        }


def plan_fleet(fleet: Fleet, folder: Path, *, tell: Tell, boxes: tuple[FleetBox, ...] = ()) -> list[BoxPlan]:
    """In the fleet's order, all or those; a box that cannot be reached or planned says why, and the others go on."""

    chosen = boxes or fleet.boxes
    places = tuple({box.at: box for box in chosen if box.recipe is None}.values())
    probed = dict(zip((box.at for box in places), for_all_boxes(lambda box: _probed(box, tell), places), strict=True))

    def planned(box: FleetBox) -> BoxPlan:
        probed_box = probed.get(box.at)
        if isinstance(probed_box, UprightError):
            return BoxPlan(box, None, probed_box)
        try:
            return BoxPlan(box, _prepared(fleet, box, folder, probed_box, tell=tell_of(box, tell)))
        except UprightError as error:
            return BoxPlan(box, None, error)

    return for_all_boxes(planned, chosen)


def _probed(box: FleetBox, tell: Tell) -> Box | UprightError:
    """Once for each machine, however many boxes are on it."""
    if box.catalog_box is not None:
        return box_named(NamedBox(box.catalog_box))
    tell(f"probing {box.machine or 'this machine'}")
    try:
        return probe(box_target(box).host())
    except UprightError as error:
        return error


def _prepared(fleet: Fleet, box: FleetBox, folder: Path, found: Box | None, *, tell: Tell) -> Prepared:
    """One box's plan and recipe; files are looked for beside fleet.yaml."""
    if box.catalog_box is not None:
        return _of_catalog(fleet, box, folder, found)
    on = box_target(box)
    host = on.host()
    if box.recipe is not None:
        prepared = prepare_recipe(_of_file(folder / box.recipe, box), host, tell=tell, on=on)
    else:
        goal = box.goal or fleet.goal
        prepared = prepare_model(_source(fleet, box, folder), goal, host, port=box.port, tell=tell, on=on, box=found)
    if prepared.recipe is None:
        return prepared
    refuse_missing_runtime(prepared.recipe, host)
    return Prepared(prepared.box, prepared.model, prepared.plan, _bound(prepared.recipe, box))


def _of_catalog(fleet: Fleet, box: FleetBox, folder: Path, found: Box | None) -> Prepared:
    """As `upright render --box` has it: nothing is looked at, neither machine nor weights nor engine."""
    if box.recipe is not None or found is None:
        raise UsageError(f"box {box.name} is {box.at}, and a recipe is for one machine", hint="model: in its place")
    source = _source(fleet, box, folder)
    request = PlanRequest(artifacts_of(source), found, box.goal or fleet.goal)
    wishes = RenderOptions(image=box.image, runtime=box.runtime, must_be_installed=False)
    prepared = prepare(request, lambda model: box.model_path or weights_path(model), port=box.port, wishes=wishes)
    if prepared.recipe is None:
        return prepared
    return replace(prepared, recipe=_bound(prepared.recipe, box))


def refuse_unreachable(boxes: Iterable[FleetBox]) -> None:
    """Before anything is started."""
    for box in boxes:
        if box.catalog_box is not None:
            raise UsageError(
                f"box {box.name} is {box.at}: no machine that can be reached",
                hint="at: ssh:HOST starts it; upright fleet render --to cluster or slurm hands it over",
            )


def box_target(box: FleetBox) -> LaunchTarget:
    return LaunchTarget(
        machine=box.machine, port=box.local_port, runtime=box.runtime, image=box.image, model_path=box.model_path
    )


def for_all_boxes(do: Callable[[FleetBox], T], boxes: tuple[FleetBox, ...]) -> list[T]:
    """For all boxes at the same time, answers in their order."""
    with ThreadPoolExecutor(min(max(1, len(boxes)), _AT_ONCE)) as pool:
        return list(pool.map(do, boxes))


def tell_of(box: FleetBox, tell: Tell) -> Tell:
    return lambda message: tell(f"{box.name}: {message}")


def _of_file(path: Path, box: FleetBox) -> Recipe:
    """The recipe in that file; what the box says beside it goes before."""
    recipe = load(path, Recipe)
    if "runtime" in box.model_fields_set:
        recipe = recipe.model_copy(update={"runtime": box.runtime})
    if box.image is not None:
        image = image_named(box.image)
        recipe = recipe.model_copy(update={"image": image.reference, "image_about": image.about})
    return recipe


def _source(fleet: Fleet, box: FleetBox, folder: Path) -> str:
    """A path is looked for beside fleet.yaml first."""
    named = fleet.source(box)
    return str(folder / named) if (folder / named).exists() else named


def _bound(recipe: Recipe, box: FleetBox) -> Recipe:
    """The same recipe on the address and port that the fleet gives it."""
    host = box.address or recipe.host
    overrides = {"--host": host, "--port": str(box.port)}
    arguments = tuple(
        setting.model_copy(update={"value": overrides[setting.name]}) if setting.name in overrides else setting
        for setting in recipe.arguments
    )
    return recipe.model_copy(update={"host": host, "port": box.port, "arguments": arguments})
