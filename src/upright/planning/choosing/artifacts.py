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
from upright.facts.catalog.fidelity import artifact_fidelity
from upright.facts.catalog.loader import catalogue_snapshot
from upright.facts.catalog.model_records import row_of
from upright.facts.catalog.rows.model import Artifact, ModelRow
from upright.facts.catalog.sister_releases import artifacts_of, release_named, releases
from upright.facts.records.box import Box
from upright.facts.records.model import Model
from upright.facts.records.plan import Goal, Plan
from upright.models.deriving.catalogue_models import record
from upright.models.deriving.named_builds import build_by_name
from upright.models.deriving.typed_gguf import gguf_of_type
from upright.planning.choosing.estimated_sizes import (
    estimated_bits,
    estimated_bytes,
    least_of_type,
    may_be_placed,
    may_fit,
)
from upright.planning.choosing.rule import Way, lost_much
from upright.planning.choosing.table import Table, best_plan, table_of
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
        self._row, self._left = row, iter(tuple(artifacts))
        self._made: list[Model] = []

    def __iter__(self) -> Iterator[Model]:
        yield from self._made
        for artifact in self._left:
            if (model := record(self._row, artifact)) is not None:
                self._made.append(model)
                yield model


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
    artifacts = artifacts_of(row, release) if release else builds_of(row)
    if release is not None and not artifacts:
        return ArtifactChoice(_read_or_named(release, read))
    model, rest = _first(row, artifacts)
    return ArtifactChoice(model, choose_from=LazyRecords(row, sorted(rest, key=lambda build: _nearness(row, build))))


def builds_of(row: ModelRow, release: str | None = None) -> tuple[Artifact, ...]:
    """Of one release, by default the one that the row is of: a sister's weights are another model's."""
    return artifacts_of(row, release or row.repository) or (() if release else row.artifacts)


def releases_of(row: ModelRow) -> dict[str, str]:
    """Every release that the row has builds of, by the name that is typed for it: `glm-5`, `glm-5.1`."""
    others = [release for release in releases(row)[1:] if builds_of(row, release)]
    return {release.rpartition("/")[2].lower(): release for release in others} | {row.id: row.repository}


def artifact_of(row: ModelRow, model: Model) -> Artifact:
    """The one that the record was made of."""
    names = {model.source.lower(), model.name.lower()}
    return next(artifact for artifact in row.artifacts if names & {*_names(artifact), _short_name(artifact)})


def _nearness(row: ModelRow, artifact: Artifact) -> tuple[int, int]:
    """Nothing lost first, and the larger of those."""
    lost = lost_much(artifact_fidelity(row, artifact, estimated_bits(row, artifact)))
    return lost, -(estimated_bytes(row, artifact) or 0)


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
    largest, table = sorted(known, key=lambda row: -(row.parameters.value or 0)), table_of(box, wanted)
    for row in largest if speed is None else largest[-_TRIED_FOR_SPEED:]:
        ways = ways_of_row(row, wanted, table, lossy=False)
        best = ways[0].plan if ways else None
        if best is not None and best.fits and (speed is None or best.speed is not None):
            plans.append(best)
        if len(plans) == most:
            break
    return plans


def ways_of_row(
    row: ModelRow, goal: Goal, table: Table, release: str | None = None, *, lossy: bool = True
) -> list[Way]:
    """Best first, as the model's name is planned; what no engine could place is left out, and its record not made where
    the row tells that. Empty if nothing is left. `lossy`: whether builds that lost much are looked at too.
    """
    box = table.box
    builds = [artifact for artifact in builds_of(row, release) if may_fit(row, artifact, box)]
    builds = [*builds[:1], *sorted(builds[1:], key=lambda build: _nearness(row, build))]
    if not lossy:
        builds = [build for build in builds if _nearness(row, build)[0] < 2]
    placeable = (model for model in LazyRecords(row, builds) if may_be_placed(model, box))
    first = next(placeable, None)
    return table.ways(first, goal, placeable) if first is not None else []


def _for_any_model(goal: Goal) -> Goal:
    """What was asked, but for what belongs to one artifact."""
    kept = ("context_tokens", "users", "use", "minimum_tokens_per_second", "first_answer_seconds", "nodes", "link")
    return Goal(**{name: getattr(goal, name) for name in kept})


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
