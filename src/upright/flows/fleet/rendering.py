"""The router's files for machines that run without Upright."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from upright.base.errors import UsageError
from upright.base.host import Host
from upright.facts.records.fleet import Fleet
from upright.facts.records.recipe import Recipe
from upright.flows.fleet.box_plans import BoxPlan
from upright.flows.fleet.router_api import PAYLOAD, listing
from upright.planning.rendering.cluster_files import (
    ClusterBox,
    PodRdma,
    binding_all,
    engine_manifests,
    helm_values,
    proof_jobs,
    sbatch,
)
from upright.planning.rendering.router import router_recipe
from upright.planning.rendering.router_files import TARGETS, kubernetes
from upright.planning.rendering.targets import TARGETS as TARGET_FILES
from upright.planning.rendering.writable import checked_writable

ENOUGH_BOXES = 16
"""More than these are a cluster's."""


@dataclass(frozen=True)
class RenderedFiles:
    recipe: Recipe
    files: dict[str, str]
    main: str
    """The file that is the answer."""


def render_router(fleet: Fleet, to: str, *, folder: str) -> RenderedFiles:
    recipe = router_recipe(
        fleet, folder=folder, program="python3", served_name=fleet.name,
        context_tokens=fleet.goal.context_tokens or 65_536,
    )  # fmt: skip
    workers = _list(fleet, in_cluster=to == "kubernetes")
    starter = PAYLOAD.read_text(encoding="utf-8")
    if to == "kubernetes":
        return RenderedFiles(
            recipe, {"router.yaml": kubernetes(recipe, starter=starter, workers=workers)}, "router.yaml"
        )
    write, name = TARGETS[to]
    main = name.format(name=f"{fleet.name}-router")
    return RenderedFiles(recipe, {main: write(recipe), "__main__.py": starter, "workers.json": workers}, main)


def for_cluster(fleet: Fleet, to: str, plans: Sequence[BoxPlan], *, wire: PodRdma | None = None) -> RenderedFiles:
    """What Kubernetes' or Slurm's people use in place of `up`; boxes without a plan that fits are said."""
    boxes = []
    for plan in plans:
        if plan.prepared is None or plan.prepared.recipe is None:
            reason = plan.problem.message if plan.problem else "the model does not fit"
            raise UsageError(f"box {plan.box.name} has no recipe: {reason}", hint="upright fleet plan says why")
        boxes.append(ClusterBox(plan.box.name, (plan.prepared.recipe, *plan.prepared.followers)))
    if len({box.service for box in boxes}) < len(boxes):
        raise UsageError("two boxes have the same name in a cluster", hint="names without dots, a letter first")
    recipe = boxes[0].recipe
    if to == "slurm":
        scripts = {f"serve-{box.service}.sh": TARGET_FILES["shell"].write(binding_all(box.recipe)) for box in boxes}
        return RenderedFiles(recipe, {"engines.sbatch": sbatch(fleet, boxes), **scripts}, "engines.sbatch")
    written = [replace(box, recipes=tuple(checked_writable(recipe) for recipe in box.recipes)) for box in boxes]
    files = {
        "engines.yaml": engine_manifests(fleet, written, wire),
        "values.yaml": helm_values(fleet, written),
        "prove.yaml": proof_jobs(fleet, written),
    }
    return RenderedFiles(recipe, files, "engines.yaml")


def next_step(fleet: Fleet, verb: str, file: str) -> tuple[str, ...]:
    """That verb, or what hands it over where a box is none that can be reached."""
    handed_over = any(box.catalog_box for box in fleet.boxes)
    return ("render", file, "--to", "cluster") if handed_over else (verb, file)


def cluster_advice(fleet: Fleet, host: Host) -> str | None:
    """Why this fleet had better be a cluster's; None if it is well here."""
    there = []
    if host.which("kubectl") is not None and host.run(["kubectl", "config", "current-context"]).ok:
        there.append(("Kubernetes", "cluster"))  # the program alone leads nowhere
    if host.which("sbatch") is not None:
        there.append(("Slurm", "slurm"))
    if len(fleet.boxes) > ENOUGH_BOXES:
        to = there[0][1] if there else "cluster"
        return f"{len(fleet.boxes)} boxes are a cluster's: upright fleet render --to {to} writes what its people use"
    if there:
        return f"{there[0][0]} is here: upright fleet render --to {there[0][1]} writes what it takes"
    return None


def _list(fleet: Fleet, *, in_cluster: bool) -> str:
    urls = {}
    for box in fleet.boxes:
        if in_cluster:
            urls[box.name] = f"http://{box.name}:{box.port}"
        elif box.address is not None:
            urls[box.name] = f"http://{box.address}:{box.port}"
        elif box.at == fleet.router.at:
            urls[box.name] = f"http://127.0.0.1:{box.port}"
        else:
            raise UsageError(
                f"box {box.name} has no address: without Upright there is no tunnel to {box.at}",
                hint="give it an address in fleet.yaml, or let Upright keep it: upright fleet up",
            )
    return listing(urls)
