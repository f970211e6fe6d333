"""The recommendation for a box and a goal.

Artifacts are planned in the order of their quality, the better ones first, and only until the table is full: whatever
comes later could not have come before. Bounds refuse what no plan could place.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import NamedTuple

from upright.base.errors import UprightError
from upright.base.units import format_tokens
from upright.facts import catalog
from upright.facts.catalog.loader import catalogue_snapshot
from upright.facts.catalog.published_rates import gpu_named
from upright.facts.catalog.rows.model import ModelRow
from upright.facts.catalog.rows.words import MeasurementRow
from upright.facts.records.box import Box
from upright.facts.records.model import Model
from upright.facts.records.plan import Goal, Plan
from upright.facts.records.recommendation import (
    Certainty,
    ModelOffer,
    ModelRefusal,
    PublishedRun,
    Quality,
    Recommendation,
)
from upright.facts.records.residuals import Residuals
from upright.planning.choosing.ranking import expert_bits, goal_speed, hopeless, ranking_key
from upright.planning.choosing.search import configurations_on
from upright.planning.placement.engine_support import UNRECORDED
from upright.planning.recommending.candidates import Candidate, box_totals, candidates_of, ruled_out
from upright.planning.recommending.quality import QualityScores
from upright.planning.speed.assumed_bandwidth import RAM_ASSUMED as RAM_ASSUMED

SHOWN = 5
"""Rows of the table."""
AWAITED = 30.0
"""Tokens a second that can be counted on, from which the weights as published are taken before faster ones."""
WHOLE_BITS = 8
"""From here on a score of the whole model is taken for the artifact's."""
LEFT_OUT = "ranked behind what is shown, and not planned: --all"


@catalogue_snapshot()
def recommend(
    box: Box,
    goal: Goal | None = None,
    *,
    most: int | None = SHOWN,
    measured: Sequence[Residuals] = (),
    rows: Iterable[ModelRow] | None = None,
) -> Recommendation:
    """The `most` best models for the box, all that fit if None."""
    goal = goal or Goal()
    standings = QualityScores()
    tried = _Tried(box, goal, configurations_on(box, measured=measured))
    known = [candidates_of(row, standings) for row in (catalog.models() if rows is None else rows)]
    groups = sorted((group for of_model in known for group in _groups(of_model)), key=_rank, reverse=True)
    for group in groups:
        if most is not None and len(tried.offers) == most:
            break
        tried.look_at(group)
    offers = sorted(tried.offers.values(), key=lambda offer: offer.decode is None)
    first = next((row for row in (group[0].row for group in groups) if offers and row.id == offers[0].model), None)
    return Recommendation(
        made_from=(box.reference,),
        box=box.name,
        goal=goal,
        offers=tuple(offers),
        refusals=tuple(_refusals((of_model[0].row.id for of_model in known if of_model), tried)),
        why=_why(offers, goal.users),
        run=published_run(box, first) if first is not None else None,
        makers_gap=round(standings.makers_gap, 1),
        models=len(known),
        artifacts=sum(len(of_model) for of_model in known),
        artifacts_planned=tried.planned,
    )


def _groups(of_model: Sequence[Candidate]) -> Iterator[list[Candidate]]:
    """Artifacts of one model that are equally good: which of them is taken, bytes and speed decide."""
    ranked = sorted(of_model, key=lambda candidate: candidate.order, reverse=True)
    yield from (list(group) for _, group in groupby(ranked, key=lambda candidate: candidate.order))


def _rank(group: Sequence[Candidate]) -> tuple[float, ...]:
    return group[0].order


class _Refused(NamedTuple):
    """Why one artifact does not do."""

    why: str
    planned: bool
    distance: tuple[int, int]
    """The larger the further: what was planned is short of so much, a bound refuses so much, nothing would help."""


@dataclass
class _Tried:
    """What was planned so far."""

    box: Box
    goal: Goal
    ways: Callable[[Model, Goal], list[Plan]]
    offers: dict[str, ModelOffer] = field(default_factory=dict)
    """By model, in the order of quality."""
    refused: dict[str, _Refused] = field(default_factory=dict)
    """By model: of its artifacts the one that came nearest."""
    planned: int = 0

    def _refuse(self, candidate: Candidate, refused: _Refused) -> None:
        name = candidate.row.id
        self.refused[name] = min(self.refused.get(name, refused), refused, key=lambda reason: reason.distance)

    def look_at(self, group: Sequence[Candidate]) -> None:
        """The first artifact that fits and is fast enough to wait for; if none is, the fastest."""
        row = group[0].row
        if row.id in self.offers:
            return
        fitting: list[tuple[Plan, Candidate]] = []
        for candidate in group:
            best = self._plan(candidate)
            if best is not None:
                fitting.append((best, candidate))
                if best.speed is None or goal_speed(best) >= AWAITED:
                    break
        if fitting:
            best, taken = max(fitting, key=lambda pair: min(goal_speed(pair[0]), AWAITED))
            self.offers[row.id] = _offer(taken, best)

    def _plan(self, candidate: Candidate) -> Plan | None:
        """The best plan of one artifact; None if it does not do, and why is noted."""
        no = ruled_out(candidate, box_totals(self.box), self.goal.minimum_tokens_per_second)
        if no is not None or candidate.model is None:
            why = no or "the size of its artifacts is not known"
            self._refuse(candidate, _Refused(why, planned=False, distance=(1, candidate.bytes or 0)))
            return None
        self.planned += 1
        model = candidate.model
        try:
            plans = self.ways(model, self.goal)
        except UprightError as error:
            self._refuse(candidate, _Refused(error.message, planned=True, distance=(2, 0)))
            return None
        if not plans:
            self._refuse(candidate, _Refused("no engine loads it", planned=True, distance=(2, 1)))
            return None
        best = min(plans, key=lambda way: ranking_key(way, model, model, self.box))
        if best.fits and (slow := _slower(best)) is None:
            return best
        self._refuse(candidate, _refused(best, slow if best.fits else None))
        return None


def _refused(plan: Plan, slow: str | None) -> _Refused:
    if slow is not None:
        return _Refused(slow, planned=True, distance=(0, 0))
    first = plan.objections[0]
    never = hopeless(plan) or first.code == "no-kernels"
    return _Refused(first.message, planned=True, distance=(2, 0) if never else (0, first.short_bytes or 0))


def _slower(plan: Plan) -> str | None:
    """A plan objects to what cannot be reached; what is not expected is no recommendation either."""
    wanted, speed = plan.goal.minimum_tokens_per_second, plan.speed
    if wanted is None or speed is None or speed.decode.best is None or speed.decode.best >= wanted:
        return None
    return f"{speed.decode.best:g} tok/s are expected, {wanted:g} are asked for"


def _model(candidate: Candidate) -> Model:
    assert candidate.model is not None
    return candidate.model


def _offer(candidate: Candidate, plan: Plan) -> ModelOffer:
    model, row, published = _model(candidate), candidate.row, candidate.standing.published
    quality = None
    if published is not None and candidate.faithful:
        quality = Quality(
            benchmark=published.benchmark,
            score=published.score,
            by=published.by,
            date=published.date,
            source=published.sources[0],
            counted=round(candidate.standing.counted, 1),
        )
    return ModelOffer(
        model=row.id,
        source=model.source,
        quant=candidate.artifact.quant or candidate.artifact.scheme,
        bits=round(expert_bits(model), 2),
        download_bytes=model.tensor_bytes,
        download_basis=model.basis,
        quality=quality,
        quality_why=_quality_words(candidate, expert_bits(model)),
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


def _quality_words(candidate: Candidate, bits: float) -> str:
    published = candidate.standing.published
    if published is None:
        return f"no published score was found; ranked by size and bits ({bits:.1f} bits a weight)"
    who = "its maker's own harness" if published.by == "maker" else published.harness or "one harness for all models"
    score_text = f"{published.benchmark} {published.score:g} ({who}, {published.date})"
    if published.note:
        score_text += f", {published.note}"
    if not candidate.faithful:
        return f"no published score at {bits:.1f} bits a weight; the whole model has {score_text}"
    whole = bits >= WHOLE_BITS or candidate.artifact is candidate.row.artifacts[0]
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


def _refusals(names: Iterable[str], tried: _Tried) -> Iterator[ModelRefusal]:
    for name in names:
        if name not in tried.offers:
            refused = tried.refused.get(name)
            if refused is None:
                yield ModelRefusal(model=name, why=LEFT_OUT, planned=False)
            else:
                yield ModelRefusal(model=name, why=refused.why, planned=refused.planned)


_EDITION = re.compile(r"-(server|workstation|max-q|sxm|pcie|nvl)$")


def published_run(box: Box, row: ModelRow) -> PublishedRun | None:
    """Same GPUs, as many of them. The load nearest to one user comes first, and runs without a draft."""
    known = list(_on_such(box))
    own = [run for run in known if _is_of(run, row)]
    best = min(own or known, key=_plainness, default=None)
    if best is None:
        return None
    return PublishedRun(id=best.id, words=_words(best), same_model=bool(own), source=best.sources[0])


def _on_such(box: Box) -> Iterator[MeasurementRow]:
    if not box.gpus or box.gpus[0].row is None:
        return
    family = _EDITION.sub("", box.gpus[0].row)
    for run in catalog.measurements():
        if run.decode_tokens_per_second and run.gpu_count == len(box.gpus) and _family(run.gpu) == family:
            yield run


def _family(name: str) -> str | None:
    """`RTX PRO 6000 Blackwell`, `rtx-pro-6000-server` -> rtx-pro-6000."""
    row = gpu_named(name)
    return _EDITION.sub("", row.id) if row else None


def _is_of(run: MeasurementRow, row: ModelRow) -> bool:
    names = {row.id, row.repository.lower(), row.repository.rpartition("/")[2].lower(), *map(str.lower, row.aliases)}
    return run.model.lower() in names


def _plainness(run: MeasurementRow) -> tuple[object, ...]:
    drafted = run.speculation not in (None, "none")
    return (run.concurrency != 1, drafted, abs((run.context_tokens or 0) - 32_768), run.id)


def _words(run: MeasurementRow) -> str:
    model = run.model.rpartition("/")[2]
    load = (
        f"{format_tokens(run.context_tokens)} context"
        if run.context_tokens is not None
        else "a context that is not said"
    )
    users = f", {run.concurrency} at once" if run.concurrency and run.concurrency > 1 else ""
    draft = f", {run.speculation}" if run.speculation not in (None, "none") else ""
    return (
        f"{model} on {run.gpu_count}x {run.gpu}, {run.engine}{draft}: {run.decode_tokens_per_second:g} tok/s decode at "
        f"{load}{users} ({run.date})"
    )
