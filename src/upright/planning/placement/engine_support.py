"""The engines to plan with, and what each of them supports."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from upright.engines import ENGINES, engine_named
from upright.engines.facets.spread import Layers, Ranks
from upright.facts import catalog
from upright.facts.catalog import recorded_architectures
from upright.facts.catalog.rows.hardware import GpuRow
from upright.facts.catalog.versions import in_range
from upright.facts.records.box import Box
from upright.facts.records.model import MlaAttention, Model
from upright.facts.records.plan import Goal, Note, Objection
from upright.planning.memory.kvcache import PACKED_SPARSE
from upright.planning.placement.asked_layers import NO_EXPERT_LAYERS

NO_CACHE_TYPE = "no-cache-type"
UNRECORDED = "architecture-not-recorded"
_HUB_CLASSES = ("ForCausalLM", "ForConditionalGeneration")


def engines_loading(artifact_format: str, packing: str | None = None) -> tuple[str, ...]:
    """Engines that load such an artifact, packed as one of them alone reads it or as none has to itself."""
    return tuple(
        name for name, engine in ENGINES.items() if artifact_format in engine.loads and engine.own_packing == packing
    )


def packing_of(model: Model) -> str | None:
    """The way of packing weights that engines have to themselves; None if these are packed in no such way."""
    first, known = (model.quantisation or "").lower().partition(" ")[0], {ENGINES[name].own_packing for name in ENGINES}
    return first if first in known else None


def engines_for_artifact(model: Model) -> tuple[str, ...]:
    return engines_loading(model.format, packing_of(model))


def has_kernels(model: Model, box: Box) -> bool:
    """Whether an engine that loads it is offered on such GPUs."""
    return any(offered_on(engine, box) for engine in engines_for_artifact(model))


def known_to_serve(artifact_format: str, architecture: str | None) -> bool:
    """Whether an engine that loads such an artifact has the class in a recorded registry."""
    return any(recorded_architectures.has(engine, architecture) for engine in engines_loading(artifact_format))


def unrecorded_class(engine: str, model: Model) -> Note | None:
    """What to know before a file is started that no recorded version of the engine reads.

    A header names its kind in the engine's own words; only a class of the hub can be held against a registry.
    """
    known, name = recorded_architectures.registry(engine), model.architecture.name
    if known is None or not name.endswith(_HUB_CLASSES) or known.since(name):
        return None
    return Note(
        code=UNRECORDED,
        message=f"no {engine} that was recorded, up to {known.versions[-1]}, has {name}: a newer build or a fork may",
        remedy="the file's own page says which build it needs",
    )


def ranks_of(engine: str) -> Ranks | None:
    spread = engine_named(engine).spread
    return spread if isinstance(spread, Ranks) else None


def layers_of(engine: str) -> Layers | None:
    spread = engine_named(engine).spread
    return spread if isinstance(spread, Layers) else None


def supports_dcp(engine: str, version: str | None) -> bool:
    """Whether ranks of this engine can share one copy of the cache."""
    ranks = ranks_of(engine)
    return ranks is not None and ranks.sharing.able(version)


def engines_for(model: Model, goal: Goal, box: Box) -> Iterator[tuple[str, Objection | None]]:
    """Engines that load the artifact and run here, or the one that was asked for with what stands in its way."""
    able = engines_for_artifact(model)
    if goal.engine is not None and goal.engine not in able:
        stored = f"{model.format} of {model.quantisation}" if packing_of(model) else model.format
        message = f"{goal.engine} does not load {stored}: {model.name} is for {' or '.join(able)}"
        yield goal.engine, Objection(code="wrong-format", message=message, remedy=f"--engine {able[0]}")
        return
    asked = (
        (goal.engine,)
        if goal.engine is not None
        else tuple(engine for engine in able if not (ENGINES[engine].by_name_only or refuses_types(engine, model)))
    )
    runs = runs_on if goal.engine is not None else offered_on
    there = [engine for engine in asked if runs(engine, box)]
    for engine in there:
        yield engine, _against(engine, goal) or _no_cache_type(engine, goal, model) or _other_silicon(goal, box)
    if asked and not there:
        yield asked[0], _no_kernels(asked[0], box, [other for other in able if runs_on(other, box)])


def gpu_architectures(box: Box) -> set[str]:
    """Vendor and compute capability of the GPUs; none for GPUs that the catalogue does not know."""
    rows = (catalog.find("gpus", gpu.row) for gpu in box.gpus if gpu.row)
    return {name for row in rows if isinstance(row, GpuRow) for name in (row.vendor, row.compute_capability)}


def runs_on(engine: str, box: Box) -> bool:
    """Whether it has kernels for these GPUs, as far as is known."""
    silicon = gpu_architectures(box)
    wanted = ENGINES[engine].runs_on
    return not silicon or any(
        in_range(name, one) if one[0] in ">=" else name == one for name in silicon for one in wanted
    )


def offered_on(engine: str, box: Box) -> bool:
    """Whether it may be planned here without being named."""
    return runs_on(engine, box) and (not ENGINES[engine].only_there or bool(gpu_architectures(box)))


def built_for(image: str, box: Box) -> bool:
    """Whether an image of the catalogue is for these GPUs; one that it does not know may be."""
    row = catalog.find_image(image)
    capabilities = [gpu.compute_capability for gpu in box.gpus if gpu.compute_capability]
    return row is None or all(in_range(capability, row.compute_capability) for capability in capabilities)


def _other_silicon(goal: Goal, box: Box) -> Objection | None:
    if goal.image is None or built_for(goal.image, box):
        return None
    message = f"the image {goal.image} is built for other GPUs than {box.gpus[0].name}"
    return Objection(code="other-silicon", message=message, remedy="leaving out --image")


def _no_kernels(engine: str, box: Box, others: Sequence[str]) -> Objection:
    where = box.gpus[0].name if box.gpus else "a machine without a GPU of its own"
    message = f"{engine} has no kernels for {where}, as far as is known"
    able = next((name for name in (*others, *ENGINES) if runs_on(name, box)), None)
    remedy = (
        None if able is None else f"--engine {able}" if others else f"--engine {able}, with {ENGINES[able].loads[0]}"
    )
    return Objection(code="no-kernels", message=message, remedy=remedy)


def refuses_types(engine: str, model: Model) -> bool:
    """Whether the file has tensor types that only a fork loads."""
    layers = layers_of(engine)
    return model.ik_only and layers is not None and not layers.fork_types


def dcp_remedy(engine: str, ranks: Ranks) -> str | None:
    """A version of it with DCP, or another engine that has it."""
    since = ranks.sharing.since()
    other = next((name for name in ENGINES if name != engine and supports_dcp(name, None)), None)
    ways = (f"--engine-version {since} or newer" if since else None, f"--engine {other}" if other else None)
    return ", or ".join(way for way in ways if way) or None


def _no_cache_type(engine: str, goal: Goal, model: Model) -> Objection | None:
    """Where its flag does not take the type, or the type is of another kind of attention."""
    asked, able = goal.kv_dtype, ENGINES[engine].cache_types
    if asked is None or not able:
        return None
    if asked not in able:
        message = f"{engine} has no cache type {asked}: it takes {', '.join(able)}"
    elif asked == PACKED_SPARSE and not any(isinstance(kind, MlaAttention) for kind in model.architecture.attention):
        message = f"the cache type {asked} is of latent attention, which {model.name} has not"
    else:
        return None
    return Objection(code=NO_CACHE_TYPE, message=message, remedy=f"--kv-dtype {able[0]}")


def _against(engine: str, goal: Goal) -> Objection | None:
    if layers_of(engine) is None:
        if goal.place is None:
            return None
        message = f"{engine} puts no whole layers of experts into system RAM"
        return Objection(code=NO_EXPERT_LAYERS, message=message, remedy="leave out --place")
    if goal.nodes > 1:
        other = next((name for name in ENGINES if ranks_of(name)), None)
        remedy = f"--engine {other}, with {ENGINES[other].loads[0]}" if other else None
        return Objection(code="one-box", message=f"{engine} serves from one box", remedy=remedy)
    if goal.ranks_asked:
        message = f"{engine} puts whole layers on devices: it takes no number of ranks, stages or sharing ranks"
        return Objection(code="no-ranks", message=message, remedy="leaving out --tp, --pp, --dp and --dcp")
    return None
