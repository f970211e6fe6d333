"""The recommendation for a box and a goal: the best way of each model, best model first.

A model's way is the first of its table, as `plan` says it. Models are looked at in the order of their published
quality, the better ones first, and only until so many are found that nothing stands against: whatever comes later could
not have come before. Bounds refuse what no plan could place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from upright.base.errors import UprightError
from upright.facts import catalog
from upright.facts.catalog.fidelity import expert_bits
from upright.facts.catalog.loader import catalogue_snapshot
from upright.facts.catalog.rows.model import Artifact, ModelRow
from upright.facts.records.box import Box
from upright.facts.records.plan import Goal, Plan
from upright.facts.records.recommendation import (
    Certainty,
    ModelOffer,
    ModelRefusal,
    PublishedRun,
    Quality,
    Recommendation,
)
from upright.planning.choosing.artifacts import artifact_of, builds_of, releases_of, ways_of_row
from upright.planning.choosing.estimated_sizes import estimated_bits
from upright.planning.choosing.nearest_run import nearest_run, plainest_run, run_words
from upright.planning.choosing.rule import Way, hopeless, lost_much
from upright.planning.choosing.table import Table, table_of
from upright.planning.placement.engine_support import UNRECORDED
from upright.planning.recommending.candidates import ruled_out
from upright.planning.recommending.quality import QualityScore, QualityScores
from upright.planning.speed.assumed_bandwidth import RAM_ASSUMED as RAM_ASSUMED

if TYPE_CHECKING:
    from upright.facts.records.residuals import Residuals

SHOWN = 5
"""Rows of the table."""
NEARLY = 20.0
"""Points of quality that a fast or small model may be below the best (assumed)."""
MUCH = 1.5
"""Times as fast, or as small, that is worth a line of its own."""
_LOSSY_BITS = 3.5
WHOLE_BITS = 8
"""From here on a score of the whole model is taken for the artifact's."""
TOO_LARGE = "its weights are larger than the memory that there is for them, or of unknown size"
LEFT_OUT = "ranked behind what is shown, and not planned: --all"


@catalogue_snapshot()
def recommend(
    box: Box,
    goal: Goal | None = None,
    *,
    most: int | None = SHOWN,
    measured: Sequence[Residuals] = (),
    rows: Iterable[ModelRow] | None = None,
    tell: Callable[[int], object] = lambda _: None,
) -> Recommendation:
    """The `most` best models for the box, all that fit if None; `tell` hears how many were looked at."""
    goal = goal or Goal()
    standings = QualityScores()
    table = table_of(box, goal, measured=measured)
    tried = _Tried(goal, table)
    known = catalog.models() if rows is None else tuple(rows)
    every = [_Candidate(row, name, release, standings) for row in known for name, release in releases_of(row).items()]
    for looked_at, candidate in enumerate(sorted(every, key=lambda one: one.quality, reverse=True)):
        tell(looked_at)
        if most is not None and sum(found.way.flawless for found in tried.found) >= most:
            break
        tried.look_at(candidate)
    known_to_fit = sorted(tried.found, key=_drawbacks)  # of equals the better model
    found = known_to_fit[:most]
    offers = tuple(_offer(one.candidate, one.way) for one in found)
    fast, small = _fast_and_small(found[0], every, tried) if found else (None, None)
    return Recommendation(
        made_from=(box.reference,),
        box=table.box.name,
        goal=goal,
        offers=offers,
        fast=_offer(fast.candidate, fast.way) if fast else None,
        small=_offer(small.candidate, small.way) if small else None,
        refusals=tuple(_refusals((one.name for one in every), tried, {offer.model for offer in offers})),
        why=_why(offers, goal.users),
        run=published_run(table.box, found[0].way) if found else None,
        makers_gap=round(standings.makers_gap, 1),
        models=len(every),
        artifacts=sum(len(candidate.builds) for candidate in every),
        artifacts_planned=tried.planned,
    )


class _Candidate:
    """One release of a model, and how good it is said to be."""

    def __init__(self, row: ModelRow, name: str, release: str, standings: QualityScores) -> None:
        self.row, self.name, self.release, self._standings = row, name, release, standings
        self.builds = builds_of(row) if release == row.repository else builds_of(row, release)
        self.quality = self._quality()

    def standing(self, repository: str) -> QualityScore:
        return self._standings.of(self.row, repository)

    @property
    def counted(self) -> float:
        """Points of its published quality; 0 without a score."""
        return self.quality[1]

    @property
    def bits(self) -> float | None:
        """Of a weight of the smallest build that did not lose much."""
        told = (estimated_bits(self.row, build) for build in self.builds)
        return min((bits for bits in told if bits is not None and bits > _LOSSY_BITS), default=None)

    def _quality(self) -> tuple[float, ...]:
        """Published quality first; without it size. The larger the better."""
        standing = self.standing(self.builds[0].repository)
        parameters, active = float(self.row.parameters.value or 0), float(self.row.active_parameters.value or 0)
        return (float(standing.published is not None), standing.counted, standing.newer, parameters, active)


class _Found(NamedTuple):
    candidate: _Candidate
    way: Way


def _drawbacks(found: _Found) -> tuple[object, ...]:
    """Between models the floors come first: a better one that nobody would wait for is no better."""
    lossy, unknown, missed, unread = found.way.drawbacks
    return unknown, missed, lossy, unread


def _fast_and_small(best: _Found, every: Sequence[_Candidate], tried: _Tried) -> tuple[_Found | None, _Found | None]:
    """Of what is nearly as good as the best. The rows tell which would be fast and which small; these two are planned
    if they were not yet.
    """
    least = best.candidate.counted - NEARLY
    near = [one for one in every if one.counted >= least > 0 and one.builds]
    for size in (_active_bytes, _whole_bytes):
        for candidate in sorted((one for one in near if size(one) is not None), key=size)[:1]:  # type: ignore[arg-type]
            if not tried.knows(candidate):
                tried.look_at(candidate)
    good = [one for one in tried.found if one.candidate.counted >= least > 0 and one.way.flawless]
    fast = max(good, key=lambda one: one.way.expected, default=None)
    small = min(good, key=lambda one: one.way.artifact.tensor_bytes, default=None)
    return (
        fast if fast and fast.way.expected >= MUCH * best.way.expected else None,
        small if small and MUCH * small.way.artifact.tensor_bytes <= best.way.artifact.tensor_bytes else None,
    )


def _active_bytes(candidate: _Candidate) -> float | None:
    """About what a token reads of its smallest faithful build."""
    active = candidate.row.active_parameters.value
    bits = candidate.bits
    return active * bits if active and bits else None


def _whole_bytes(candidate: _Candidate) -> float | None:
    parameters, bits = candidate.row.parameters.value, candidate.bits
    return parameters * bits if parameters and bits else None


class _Refused(NamedTuple):
    """Why one model does not do."""

    why: str
    planned: bool


@dataclass
class _Tried:
    """What was planned so far."""

    goal: Goal
    table: Table
    found: list[_Found] = field(default_factory=list)
    """In the order of quality."""
    refused: dict[str, _Refused] = field(default_factory=dict)
    """By model."""
    planned: int = 0

    def knows(self, candidate: _Candidate) -> bool:
        return candidate.name in self.refused or any(one.candidate is candidate for one in self.found)

    def look_at(self, candidate: _Candidate) -> None:
        row = candidate.row
        bounds = [self._bound(row, artifact) for artifact in candidate.builds]
        if all(bounds):
            self.refused[candidate.name] = _Refused(_nearest_bound(candidate.builds, bounds), planned=False)
            return
        release = None if candidate.release == row.repository else candidate.release
        try:
            ways = ways_of_row(row, self.goal, self.table, release)
        except UprightError as error:
            self.refused[candidate.name] = _Refused(error.message, planned=True)
            return
        self.planned += len({way.artifact.source for way in ways})
        if not ways:
            self.refused[candidate.name] = _Refused(
                "the size of its artifacts is not known, or no memory holds it", planned=True
            )
            return
        best = ways[0].plan
        slow = _slower(best) if best.fits else None
        if best.fits and slow is None:
            self.found.append(_Found(candidate, ways[0]))
        else:
            why = slow or _first_objection(ways)
            if why is None:  # what there is for these GPUs was not planned: no memory holds it
                why = (
                    self._left_out(candidate, bounds, {way.artifact.source for way in ways})
                    or best.objections[0].message
                )
            self.refused[candidate.name] = _Refused(why, planned=True)

    @staticmethod
    def _left_out(candidate: _Candidate, bounds: Sequence[str | None], planned: set[str]) -> str | None:
        if any(bounds):
            return _nearest_bound(candidate.builds, bounds)
        return TOO_LARGE if len(planned) < len(candidate.builds) else None

    def _bound(self, row: ModelRow, artifact: Artifact) -> str | None:
        return ruled_out(row, artifact, self.table.box, self.goal.minimum_tokens_per_second)


def _nearest_bound(builds: Sequence[Artifact], bounds: Sequence[str | None]) -> str:
    """Of the smallest build."""
    sizes = (artifact.size_bytes.value or float("inf") for artifact in builds)
    return min((size, why) for size, why in zip(sizes, bounds, strict=True) if why)[1]


def _first_objection(ways: Sequence[Way]) -> str | None:
    """Of what is short of the fewest bytes; None where nothing would help any of them."""
    near = [way.plan.objections[0] for way in ways if not hopeless(way.plan)]
    return min(near, key=lambda objection: objection.short_bytes or 0).message if near else None


def _slower(plan: Plan) -> str | None:
    """A plan objects to what cannot be reached; what is not expected is no recommendation either."""
    wanted, speed = plan.goal.minimum_tokens_per_second, plan.speed
    if wanted is None or speed is None or speed.decode.best is None or speed.decode.best >= wanted:
        return None
    return f"{speed.decode.best:g} tok/s are expected, {wanted:g} are asked for"


def _offer(candidate: _Candidate, way: Way) -> ModelOffer:
    plan, model, row = way.plan, way.artifact, candidate.row
    artifact = artifact_of(row, model)
    standing = candidate.standing(artifact.repository)
    published, whole = standing.published, lost_much(way.fidelity) < 2
    quality = None
    if published is not None and whole:
        quality = Quality(
            benchmark=published.benchmark,
            score=published.score,
            by=published.by,
            date=published.date,
            source=published.sources[0],
            counted=round(standing.counted, 1),
        )
    return ModelOffer(
        model=candidate.name,
        source=model.source,
        quant=artifact.quant or artifact.scheme,
        bits=round(expert_bits(model), 2),
        download_bytes=model.tensor_bytes,
        download_basis=model.basis,
        quality=quality,
        quality_why=_quality_words(standing, way),
        parameters=model.parameters,
        active_parameters=int(row.active_parameters.value) if row.active_parameters.value else None,
        certainty=_certainty(plan),
        artifact=plan.model,
        engine=plan.engine,
        engine_version=plan.engine_version,
        context_tokens=plan.context_tokens,
        users_at_context=plan.users_at_context,
        largest_context_tokens=plan.largest_context_tokens,
        decode=plan.speed.decode if plan.speed else None,
        prompt=plan.speed.prompt if plan.speed else None,
        turn=plan.speed.turns[0] if plan.speed and plan.speed.turns else None,
        speed_why=plan.speed.why if plan.speed else _note(plan, "speed-unknown") or "speed is not known",
        offloaded_layers=sum(len(place.layers) for place in plan.expert_places if place.device == "host"),
        assumed=_note(plan, RAM_ASSUMED),
        unrecorded=_note(plan, UNRECORDED),
    )


def _note(plan: Plan, code: str) -> str | None:
    """The note's sentence, with what to set."""
    note = next((note for note in plan.notes if note.code == code), None)
    return None if note is None else note.message + (f": {note.remedy}" if note.remedy else "")


def _certainty(plan: Plan) -> Certainty:
    if plan.speed is None:
        return "not known"
    return "measured" if plan.speed.basis == "measured" else "assumed" if plan.speed.basis == "assumed" else "derived"


def _quality_words(standing: QualityScore, way: Way) -> str:
    published, bits = standing.published, expert_bits(way.artifact)
    if published is None:
        return f"no published score was found; ranked by size and bits ({bits:.1f} bits a weight)"
    who = "its maker's own harness" if published.by == "maker" else published.harness or "one harness for all models"
    score_text = f"{published.benchmark} {published.score:g} ({who}, {published.date})"
    if published.note:
        score_text += f", {published.note}"
    if lost_much(way.fidelity) == 2:
        return f"no published score at {bits:.1f} bits a weight; the whole model has {score_text}"
    whole = bits >= WHOLE_BITS or way.fidelity.level in ("native", "equal")
    return score_text if whole else f"{score_text}; of the whole model, this has {bits:.1f} bits"


def _why(offers: Sequence[ModelOffer], users: int) -> str:
    if not offers:
        return "no model of the catalogue fits this box as asked"
    first = offers[0]
    if first.quality is not None:
        return f"{first.model} is first: {first.quality_why}, the best of what fits and holds {_held(first, users)}"
    largest = f"it is the largest that holds {_held(first, users)}"
    return f"{first.model} is first: none that fits has a published score, and {largest}"


def _held(offer: ModelOffer, users: int) -> str:
    return f"{offer.context_tokens:,} tokens for {'1 user' if users == 1 else f'{users} users'}"


def _refusals(names: Iterable[str], tried: _Tried, offered: set[str]) -> Iterator[ModelRefusal]:
    for name in names:
        if name not in offered:
            refused = tried.refused.get(name, _Refused(LEFT_OUT, planned=False))
            yield ModelRefusal(model=name, why=refused.why, planned=refused.planned)


def published_run(box: Box, way: Way) -> PublishedRun | None:
    """The one that is nearest to the first offer; without one of that model the plainest on such a box."""
    found = nearest_run(way.plan, way.artifact, box)
    seen = found.seen if found else plainest_run(box)
    if seen is None:
        return None
    words = f"{seen.model.rpartition('/')[2]} on {seen.gpu}: {run_words(seen)} ({seen.date})"
    if found and found.differences:
        words += f"; not as planned: {', '.join(found.differences)}"
    return PublishedRun(id=seen.id, words=words, same_model=found is not None, source=seen.source)
