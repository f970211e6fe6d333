"""MODEL and BOX as people type them, and a Goal, as a PlanRequest.

The one place that looks at what they name: a file or folder is read, a repository's headers are fetched, a machine is
probed, earlier measurements are found. Names of the catalogue cost none of that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from upright.base.bounds.files import file_bytes
from upright.base.units import GIB, Bandwidth
from upright.facts.records.plan import Goal
from upright.planning.choosing.artifacts import ArtifactChoice, artifact_choice
from upright.planning.requests.plan_request import PlanRequest
from upright.planning.requests.several_boxes import for_boxes_named

if TYPE_CHECKING:
    from upright.facts.records.base import Figure
    from upright.facts.records.box import Box, Cpu, Gpu
    from upright.facts.records.kernel import KernelVerdict
    from upright.facts.records.model import Model
    from upright.facts.records.recipe import Recipe
    from upright.facts.records.residuals import Residuals


_LARGEST_CONFIGURATION_BYTES = 64 * 2**20


class NamedBox(NamedTuple):
    """Which box, and what its owner says of it."""

    box: str | None = None
    """A name of the catalogue, a file, a recording, ssh:HOST; None is this machine."""
    memory_gib: float | None = None
    bandwidth_gb: float | None = None
    """GB/s of system RAM."""


def make_plan_request(
    model: str,
    named: NamedBox,
    goal: Goal,
    *,
    measured: Sequence[Residuals] | None = None,
    verdicts: Sequence[KernelVerdict] = (),
    host_cache_gib: float | None = None,
) -> PlanRequest:
    """A plan's file is asked again, with its own goal but for what is set here, on its own box unless one is named."""
    host_cache = int(host_cache_gib * GIB) if host_cache_gib is not None else None
    if (of_plan := plan_of_file(model)) is not None:
        model, goal = of_plan.model, of_plan.goal_with(goal)
        named = named._replace(box=named.box or of_plan.box)
        host_cache = host_cache or of_plan.host_cache_bytes
    known = measurements() if measured is None else measured
    one, goal = for_boxes_named(named.box, goal)
    choice_of_artifacts, box = artifacts_of(model), box_named(named._replace(box=one))
    return PlanRequest(choice_of_artifacts, box, goal, measured=known, verdicts=verdicts, host_cache_bytes=host_cache)


def artifacts_of(text: str, read: Callable[[str], Model] | None = None) -> ArtifactChoice:
    """What MODEL may stand for; a file or folder is itself."""
    from upright.facts import catalog

    read, text = read or _read, catalog.model_as_typed(text)
    return ArtifactChoice(read(text)) if Path(text).exists() else artifact_choice(text, read)


def box_named(named: NamedBox) -> Box:
    """A name of the catalogue at once; what must be probed or read, by the prober."""
    from upright.facts import catalog

    text, _ = for_boxes_named(named.box, Goal())
    if text is not None and not Path(text).exists() and catalog.find_box(text) is not None:
        box = catalog.box_record(text)
    else:
        from upright.planning.probing import box_of

        box = box_of(text)
    return box.model_copy(update={**owner_figures(named, box), **_sockets(named, box)})


def measurements() -> Sequence[Residuals]:
    """Earlier starts that were measured; nothing is imported where there is none."""
    from upright.base.home import home

    if not any((home() / "deployments").glob("*/residuals.json")):
        return ()
    from upright.facts.store import measured_residuals

    return measured_residuals()


def weights_path(artifact: Model) -> str:
    """The file or folder here, wherever the command is run; else what is known of where it would be."""
    from upright.planning.requests.preparation import named_path

    return str(Path(artifact.path).absolute()) if artifact.path else named_path(artifact)


class PlanFile(NamedTuple):
    """What a plan's file asks for."""

    model: str
    box: str
    goal: Goal
    host_cache_bytes: int | None = None
    """System RAM behind the KV cache, if the plan has it."""

    def goal_with(self, wishes: Goal) -> Goal:
        """The file's, with the fields that the other one sets."""
        return self.goal.model_copy(update={field: getattr(wishes, field) for field in wishes.model_fields_set})


def plan_of_file(text: str) -> PlanFile | None:
    """The model, the box and the goal of a plan's file; None if it is no record's file."""
    if not _is_record(text):
        return None
    from upright.base.errors import UsageError
    from upright.engines.facets.tiers import host_cache_bytes
    from upright.facts.records.loading import load
    from upright.facts.records.plan import Plan

    record = load(Path(text))
    if not isinstance(record, Plan):
        raise UsageError(f"{text} is a {record.kind}, not a plan", hint="upright plan MODEL -o plan.json")
    goal = record.goal.model_copy(update={"engine": record.engine, "context_tokens": record.context_tokens})
    return PlanFile(record.model, record.box, goal, host_cache_bytes(record) or None)


def recipe_of_file(text: str) -> Recipe | None:
    """The recipe in a file; None if the file, or whatever it is, holds none."""
    if not _is_record(text):
        return None
    from upright.facts.records.loading import load
    from upright.facts.records.recipe import Recipe

    record = load(Path(text))
    return record if isinstance(record, Recipe) else None


def kernel_verdicts(path: Path | None) -> Sequence[KernelVerdict]:
    """What `kernels check` wrote into that file."""
    if path is None:
        return ()
    from upright.facts.records.kernel import KernelCheck
    from upright.facts.records.loading import load

    return load(path, KernelCheck).verdicts


def _is_record(text: str) -> bool:
    """A model's config.json is no record, whatever it is called."""
    path = Path(text)
    return path.suffix in {".json", ".yaml", ".yml"} and path.is_file() and not _is_configuration(path)


def _is_configuration(path: Path) -> bool:
    if path.suffix != ".json" or path.stat().st_size > _LARGEST_CONFIGURATION_BYTES:
        return False
    from upright.base.bounds.bounded_json import parse_json

    try:
        content = parse_json(file_bytes(path))
    except (OSError, ValueError):
        return False
    return (
        isinstance(content, dict) and "record" not in content and bool({"architectures", "model_type"} & set(content))
    )


def _read(source: str) -> Model:
    from upright.models.reading import read  # a name of the catalogue needs no reader

    return read(source)


def _sockets(named: NamedBox, box: Box) -> dict[str, Cpu]:
    """More channels than one socket has are those of two."""
    told = named.bandwidth_gb.sockets if isinstance(named.bandwidth_gb, Bandwidth) else 1
    return {"cpu": box.cpu.model_copy(update={"sockets": told})} if told > (box.cpu.sockets or 1) else {}


def _whole_bandwidth_gb(told: float, box: Box) -> float:
    """Channels and processors tell of their own sockets, a plain figure of the whole box."""
    if not isinstance(told, Bandwidth):
        return told
    return told / told.sockets * max(told.sockets, box.cpu.sockets or 1)


def owner_figures(named: NamedBox, box: Box) -> dict[str, Figure | tuple[Gpu, ...]]:
    """What the owner says, where it is said."""
    if named.memory_gib is None and named.bandwidth_gb is None:
        return {}
    from upright.base.units import GB
    from upright.facts.records.base import Figure

    stated: dict[str, Figure | tuple[Gpu, ...]] = {}
    if named.memory_gib is not None:
        from upright.facts.catalog.unified_memory import unified_memory_gpus

        memory = Figure(value=int(named.memory_gib * GIB), basis="assumed", source="--host-memory")
        stated |= {"memory_bytes": memory, "memory_available_bytes": memory}
        if gpus := unified_memory_gpus(box, named.memory_gib):
            stated["gpus"] = gpus
    if named.bandwidth_gb is not None:
        from upright.planning.speed.assumed_bandwidth import theoretical

        whole_gb = _whole_bandwidth_gb(named.bandwidth_gb, box)
        rate = Figure(value=int(whole_gb * GB), basis="assumed", source="--host-bandwidth")
        kind = "memory_bandwidth" if theoretical(named.bandwidth_gb) else "memory_bandwidth_measured"
        stated[f"{kind}_bytes_per_second"] = rate
    return stated
