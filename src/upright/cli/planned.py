"""MODEL, BOX and wishes as people type them -> the plan and what it was made from, for verbs that need a recipe."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from upright.cli.options import RANKS, Number, engine_option, goal_options, port_option, said

if TYPE_CHECKING:
    from upright.planning.artifacts import Choice
    from upright.records.box import Box
    from upright.records.model import Model
    from upright.records.plan import Goal, Plan
    from upright.records.recipe import Recipe
    from upright.records.residuals import Residuals

F = TypeVar("F", bound=Callable[..., Any])
GOAL = {
    "context": "context_tokens",
    "users": "users",
    "use": "use",
    "engine": "engine",
    "engine_version": "engine_version",
    "kv_dtype": "kv_dtype",
    "tp": "tensor_parallel",
    "pp": "pipeline_parallel",
    "dcp": "decode_context_parallel",
    "gpu_memory_utilization": "memory_fraction",
    "draft": "draft",
    "acceptance": "acceptance",
    "min_speed": "minimum_tokens_per_second",
    "image": "image",
    "nodes": "nodes",
    "link": "link",
}
"""Options that are wishes, and the goal's fields that hold them."""

MACHINE = ("box", "host_memory", "host_bandwidth")
"""Options that say which machine."""
WISHES = (*GOAL, *MACHINE)
"""Options of `plan`; `render` and `check` share them but for JUDGED."""
JUDGED = ("use", "acceptance", "min_speed")
"""Wishes that judge a plan and change no recipe."""
SERVING = ("port", "served_name", "model_path", "image", "vision")
"""Options that `render` and `check` share beyond those."""


@dataclass(frozen=True)
class Planned:
    """A plan with its model and box, and the recipe if it fits."""

    plan: Plan
    model: Model
    box: Box
    recipe: Recipe | None
    """The first box's, where several hold the model together."""
    followers: tuple[Recipe, ...] = ()
    """Those of the other boxes."""


def box_options(function: F) -> F:
    """Which machine."""
    for option in (
        click.option(
            "--host-bandwidth",
            type=Number(min=1),
            help="GB/s of main memory, where the box does not say: 358 for 8 channels of DDR5-5600.",
        ),
        click.option("--host-memory", type=Number(min=1), help="GiB of main memory, where the box does not say."),
        click.option(
            "--box",
            callback=said,
            help="A name of the catalogue, a number of GPUs such as 4x-rtx-5090, a box.json, a recording, or "
            "ssh:HOST.  [default: this machine]",
        ),
    ):
        function = option(function)
    return function


def node_options(function: F) -> F:
    """Several boxes as one model."""
    for option in (
        click.option("--link", help="The network between them: a name of `upright catalog list links`."),
        click.option("--nodes", type=click.IntRange(1, 64), default=1, help="Such boxes as one model.  [default: 1]"),
    ):
        function = option(function)
    return function


def recipe_options(function: F) -> F:
    """Everything that decides a recipe."""
    for option in (
        click.option("--draft", is_flag=True, help="With a draft model (EAGLE3, MTP)."),
        click.option("--vision", is_flag=True, help="Serve images too; the safe start is text only."),
        click.option("--image", help="Container image: a name of the catalogue, NAME:TAG or a digest."),
        click.option(
            "--model-path", help="Where the weights are on the target.  [default: as read, or the repository]"
        ),
        click.option("--served-name", help="The name that clients use."),
        click.option("--gpu-memory-utilization", type=Number(min=0), help="Share of each GPU for the engine."),
        click.option("--kv-dtype", help="Type of the KV cache, as the engine spells it."),
        click.option("--dcp", type=RANKS, help="Ranks that share one copy of the cache."),
        click.option("--pp", type=RANKS, help="Pipeline stages."),
        click.option("--tp", type=RANKS, help="Ranks of tensor parallelism."),
        click.option("--engine-version", help="For this version of it, such as 0.32.0."),
        engine_option,
        port_option,
        node_options,
        goal_options,
        box_options,
    ):
        function = option(function)
    return function


def planned(
    model: str, box: str | None, host_memory: float | None = None, host_bandwidth: float | None = None, **wanted: Any
) -> Planned:
    """The best plan and its recipe. A plan's file is planned again, with its own goal and box."""
    from upright.planning import plan
    from upright.rendering import render
    from upright.rendering.recipe import Wishes

    goal = goal_of(wanted)
    if _is_record(model):
        model, box, goal = _from_plan(model, box)
    machine, chosen = box_named(box, host_memory, host_bandwidth), artifacts_of(model)
    others, known = chosen.others, measurements()
    best = plan(machine, chosen.model, goal, choose_from=chosen.choose_from, others=others, measured=known)[0]
    artifact = next(each for each in (chosen.model, *chosen.choose_from) if each.name == best.model)
    if not best.fits:
        return Planned(best, artifact, machine, None)
    wishes = Wishes(
        served_name=wanted.get("served_name"),
        vision=bool(wanted.get("vision")),
        image=wanted.get("image"),
        leader=wanted.get("leader") or "node-0",
        must_be_installed=False,
    )
    path = wanted.get("model_path") or _path(model, artifact)
    recipe, *followers = (
        render(best, artifact, machine, model_path=path, port=wanted["port"], wishes=replace(wishes, node=node))
        for node in range(best.parallel.nodes)
    )
    return Planned(best, artifact, machine, recipe, tuple(followers))


def recipe_of_file(text: str) -> Recipe | None:
    """The recipe in a file; None if the file, or whatever it is, holds none."""
    if not _is_record(text):
        return None
    from upright.records.loading import load
    from upright.records.recipe import Recipe

    record = load(Path(text))
    return record if isinstance(record, Recipe) else None


def plan_of_file(text: str) -> tuple[str, str | None, Goal] | None:
    """The model, the box and the goal of a plan's file; None if it is no record's file."""
    return _from_plan(text, None) if _is_record(text) else None


def _is_record(text: str) -> bool:
    return Path(text).suffix in {".json", ".yaml", ".yml"} and Path(text).is_file()


def _from_plan(text: str, box: str | None) -> tuple[str, str | None, Goal]:
    from upright.errors import UsageError
    from upright.records.loading import load
    from upright.records.plan import Plan

    record = load(Path(text))
    if not isinstance(record, Plan):
        raise UsageError(f"{text} is a {record.kind}, not a plan", hint="upright plan MODEL -o plan.json")
    goal = record.goal.model_copy(update={"engine": record.engine, "context_tokens": record.context_tokens})
    return record.model, box or record.box, goal


def measurements() -> Sequence[Residuals]:
    """Earlier starts that were measured; nothing is imported where there is none."""
    from upright.home import home

    if not any((home() / "deployments").glob("*/residuals.json")):
        return ()
    from upright.store import measured

    return measured()


def goal_of(wanted: dict[str, Any]) -> Goal:
    """The options that are wishes, as a Goal."""
    from upright.records.plan import Goal

    return Goal(**{field: wanted[option] for option, field in GOAL.items() if option in wanted})


def artifacts_of(text: str) -> Choice:
    """What MODEL may stand for; a file or folder is itself."""
    from upright.planning.artifacts import Choice, choice

    def read(source: str) -> Model:
        from upright.reading import read  # a name of the catalogue needs no reader

        return read(source)

    return Choice(read(text)) if Path(text).exists() else choice(text, read)


def box_named(text: str | None, host_memory: float | None = None, host_bandwidth: float | None = None) -> Box:
    """A name of the catalogue at once; what must be probed or read, by the prober. Memory in GiB and GB/s, if said."""
    from upright import catalog

    if text is not None and not Path(text).exists() and catalog.find_box(text) is not None:
        box = catalog.box_record(text)
    else:
        from upright.probing import box_of

        box = box_of(text)
    if host_memory is None and host_bandwidth is None:
        return box
    from upright.records.base import Figure
    from upright.units import GB, GIB

    said: dict[str, Figure] = {}
    if host_memory is not None:
        room = Figure(value=int(host_memory * GIB), basis="assumed", source="--host-memory")
        said |= {"memory_bytes": room, "memory_available_bytes": room}
    if host_bandwidth is not None:
        rate = Figure(value=int(host_bandwidth * GB), basis="assumed", source="--host-bandwidth")
        said["memory_bandwidth_bytes_per_second"] = rate
    return box.model_copy(update=said)


def _path(text: str, artifact: Model) -> str:
    """The file or folder here, else the repository; of a GGUF that is not here at most the name is known."""
    if Path(text).exists():
        return str(Path(text).absolute())
    if artifact.path:
        return artifact.path
    if artifact.format == "gguf":
        from upright.records.recipe import ELSEWHERE, FIRST_FILE

        name = Path(artifact.files[0].name).name if artifact.files else FIRST_FILE
        return f"{ELSEWHERE}/{name}"
    return artifact.source
