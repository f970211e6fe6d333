"""The artifacts that a typed MODEL may mean, and those to offer if none fits.

A name of the catalogue means any of its artifacts, the name of a release any of that release; a repository means that
one, with its sisters as offers. What the catalogue knows is planned offline, on its word; everything else is read, or
where the hub cannot be asked planned by what its name tells.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from upright.base.errors import UnreachedError, UsageError
from upright.facts import catalog
from upright.facts.catalog.loader import catalogue_snapshot
from upright.facts.catalog.model_records import row_of
from upright.facts.catalog.rows.model import Artifact, ModelRow
from upright.facts.catalog.sister_releases import artifacts_of, release_named
from upright.facts.records.box import Box
from upright.facts.records.model import Model
from upright.facts.records.plan import Goal, Plan
from upright.models.deriving.catalogue_models import record
from upright.models.deriving.named_builds import build_by_name
from upright.models.deriving.typed_gguf import gguf_of_type
from upright.planning.choosing.estimated_sizes import least_of_type, may_be_placed, may_fit
from upright.planning.choosing.ranking import faithful, ranking_key
from upright.planning.choosing.search import best_plan, configurations_on
from upright.planning.placement.engine_support import known_to_serve


class ArtifactChoice(NamedTuple):
    """What may be planned."""

    model: Model
    """What the person named, or the native artifact."""
    choose_from: Iterable[Model] = ()
    """Artifacts that may be taken instead: the person named the model, not the artifact."""
    others: Iterable[Model] = ()
    """Artifacts that may be offered."""


class LazyRecords(Iterable[Model]):
    """Records of artifacts, made when somebody looks."""

    def __init__(self, row: ModelRow, artifacts: Iterable[Artifact]) -> None:
        self._row, self._artifacts = row, tuple(artifacts)
        self._made: tuple[Model, ...] | None = None

    def __iter__(self) -> Iterator[Model]:
        if self._made is None:
            found = (record(self._row, artifact) for artifact in self._artifacts)
            self._made = tuple(model for model in found if model is not None)
        return iter(self._made)


def artifact_choice(text: str, read: Callable[[str], Model]) -> ArtifactChoice:
    """`read` reads headers: planning itself opens no file. A path is the caller's to read."""
    row = catalog.find_model(text)
    if row is None:
        return ArtifactChoice(_read_or_named(text, read))
    named = [artifact for artifact in row.artifacts if text.lower() in _names(artifact)]
    release = None if named else release_named(row, text)
    if not named and release is None and text.lower() != row.id:
        named = [
            artifact for artifact in row.artifacts if text.lower() in (_short_name(artifact), _of_row(row, artifact))
        ]
    if named:
        return _of_artifact(text, row, named, read)
    if ":" in text:
        if typed := gguf_of_type(row, text):
            return ArtifactChoice(typed, others=LazyRecords(row, row.artifacts))
        known = ", ".join(sorted(name for artifact in row.artifacts for name in _names(artifact) if "/" in name))
        types = "a GGUF is also planned by its type, such as Q4_K_M or IQ4_XS"
        raise UsageError(f"the catalogue has no {text}", hint=f"it has {known}; {types}")
    artifacts = artifacts_of(row, release)
    if release is not None and not artifacts:
        return ArtifactChoice(_read_or_named(release, read))
    model, rest = _first(row, artifacts)
    return ArtifactChoice(model, choose_from=LazyRecords(row, rest))


def _read_or_named(text: str, read: Callable[[str], Model]) -> Model:
    """As the hub has it; without a network, by the model and the scheme that its name tells."""
    try:
        return read(text)
    except UnreachedError:
        if (model := build_by_name(text)) is None:
            raise
        return model


def _of_artifact(text: str, row: ModelRow, named: Sequence[Artifact], read: Callable[[str], Model]) -> ArtifactChoice:
    others = LazyRecords(row, [artifact for artifact in row.artifacts if artifact not in named])
    if all(record(row, artifact) is None for artifact in named):
        return ArtifactChoice(_read_or_named(text, read), others=others)
    model, _ = _first(row, named)
    return ArtifactChoice(model, others=others)


_OWN_TYPES = ("Q4_K_M", "Q3_K_M", "Q2_K")
"""Types that every builder of GGUFs makes, more bits first."""


def own_quant_plan(box: Box, goal: Goal, than: Model) -> Plan | None:
    """The plan of this model as a GGUF of a usual type, the first that fits and is as fast as is asked.

    None also where no engine is known to serve its architecture so. No file is named: sizes follow from the type.
    """
    row = row_of(than)
    if row is None or not known_to_serve("gguf", than.architecture.name):
        return None
    room = sum(figure.value or 0 for figure in (box.memory_bytes, *(gpu.memory_bytes for gpu in box.gpus)))
    wanted = _for_any_model(goal)
    for gguf_type in (name for name in _OWN_TYPES if least_of_type(row, name) < room):
        typed = gguf_of_type(row, f"{row.id}:{gguf_type}")
        if typed is None or not typed.tensor_bytes < min(than.tensor_bytes, room):
            continue
        best = best_plan(box, typed.model_copy(update={"name": f"{row.id}:{gguf_type}"}), wanted)
        if best.fits and (goal.minimum_tokens_per_second is None or best.speed is not None):
            return best
    return None


_TRIED_FOR_SPEED = 10
"""The smallest models of the catalogue: where these are too slow, larger ones are, and each takes a while to plan."""


@catalogue_snapshot()
def smaller_models(box: Box, goal: Goal, than: Model, *, most: int = 2) -> list[Plan]:
    """Plans of the largest other models of the catalogue that fit the box, as fast as is asked."""
    plans: list[Plan] = []
    known = [row for row in catalog.models() if (row.parameters.value or 0) < 0.9 * than.parameters]
    speed, wanted = goal.minimum_tokens_per_second, _for_any_model(goal)
    largest, ways = sorted(known, key=lambda row: -(row.parameters.value or 0)), configurations_on(box)
    for row in largest if speed is None else largest[-_TRIED_FOR_SPEED:]:
        best = _best_of(row, box, wanted, ways)
        if best is not None and best.fits and (speed is None or best.speed is not None):
            plans.append(best)
        if len(plans) == most:
            break
    return plans


def _best_of(row: ModelRow, box: Box, goal: Goal, ways: Callable[[Model, Goal], list[Plan]]) -> Plan | None:
    """As `best_way` of its artifacts, where one fits: what no engine could place is not planned, nor is its record made
    where the row tells that.
    """
    told = [artifact for artifact in row.artifacts if may_fit(row, artifact, box)]
    made = tuple(LazyRecords(row, told))
    native = made[0] if made and told[0] is row.artifacts[0] else None
    placeable = {model.name: model for model in made if may_be_placed(model, box)}
    if native is not None and native.name in placeable:
        return best_plan(box, native, goal, choose_from=[model for model in placeable.values() if model is not native])
    planned = (way for model in placeable.values() if faithful(model) for way in ways(model, goal))
    return min(planned, key=lambda way: ranking_key(way, placeable[way.model], native, box), default=None)


def _for_any_model(goal: Goal) -> Goal:
    """What was asked, but for what belongs to one artifact."""
    speed = goal.minimum_tokens_per_second
    return Goal(context_tokens=goal.context_tokens, users=goal.users, use=goal.use, minimum_tokens_per_second=speed)


def _names(artifact: Artifact) -> set[str]:
    """With its repository; of one quant also without, as a plan's record names it."""
    repository = artifact.repository.lower()
    if not artifact.quant:
        return {repository}
    whole = f"{repository}:{artifact.quant}".lower()
    return {whole, whole.rpartition("/")[2]}


def _of_row(row: ModelRow, artifact: Artifact) -> str | None:
    """`glm-4.5-air:q4_k_m`: the model's name, and the quant of one of its GGUFs."""
    return f"{row.id}:{artifact.quant}".lower() if artifact.quant else None


def _short_name(artifact: Artifact) -> str:
    return artifact.repository.rpartition("/")[2].lower()


def _first(row: ModelRow, artifacts: Sequence[Artifact]) -> tuple[Model, Sequence[Artifact]]:
    for index, artifact in enumerate(artifacts):
        model = record(row, artifact)
        if model is not None:
            return model, artifacts[index + 1 :]
    raise UsageError(
        f"{row.name}: the catalogue does not know the size of {' or '.join(a.repository for a in artifacts)}",
        hint=f"name {artifacts[0].repository} itself, and its headers are read from the hub",
    )
