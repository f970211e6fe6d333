"""Cells of a field test: one artifact by one engine in one configuration."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from upright.base.errors import UprightError
from upright.engines import ENGINES
from upright.facts import catalog
from upright.facts.records.box import Box
from upright.facts.records.model import Model
from upright.facts.records.plan import Goal, Parallel, Plan
from upright.flows.first_hour.uncertainty import uncertainty_key
from upright.models.deriving.catalogue_models import record
from upright.planning.choosing.rule import Way, ordered
from upright.planning.choosing.table import Table
from upright.planning.placement.engine_support import offered_on
from upright.planning.recommending.candidates import ruled_out

_MOST_SMALL = 12
"""Artifacts that are looked at for engines that do not load the smallest."""


@dataclass(frozen=True)
class FieldCell:
    """One way to stand one artifact."""

    model: Model
    plan: Plan

    @property
    def label(self) -> str:
        return f"{self.plan.model} on {self.plan.engine}{_parallel_words(self.plan.parallel)}"

    @property
    def goal(self) -> Goal:
        """What brings the same plan again: what the planner would choose by itself is not pinned."""
        parallel = self.plan.parallel
        ranks = {
            "tensor_parallel": parallel.tensor, "pipeline_parallel": parallel.pipeline,
            "data_parallel": parallel.data, "decode_context_parallel": parallel.decode_context,
        }  # fmt: skip
        pinned = {name: count for name, count in ranks.items() if count > 1}
        return Goal(context_tokens=self.plan.context_tokens, engine=self.plan.engine, **pinned)


@dataclass(frozen=True)
class CellSource:
    """Plans for one box, by the engines that may be taken."""

    box: Box
    ways: Callable[[Model, Goal], list[Way]]
    engines: Collection[str] | None
    """None: whatever the planner offers; else those that are on the box."""

    @classmethod
    def of(cls, box: Box, engines: Collection[str] | None) -> CellSource:
        return cls(box, Table(box).of_artifact, engines)

    def cells(self, model: Model) -> list[FieldCell]:
        """The best configuration of each engine, and DCP where ranks replicate the cache; what is known least first."""
        cells = {cell.label: cell for cell in self._planned(model)}
        return sorted(cells.values(), key=lambda cell: uncertainty_key(cell.plan), reverse=True)

    def _planned(self, model: Model) -> Iterator[FieldCell]:
        for plan in self._best(model, Goal()):
            yield FieldCell(model, plan)
            if (ranks := plan.parallel.tensor) > 1 and plan.kv.copies > 1:
                shared = Goal(engine=plan.engine, tensor_parallel=ranks, decode_context_parallel=ranks)
                yield from (FieldCell(model, other) for other in self._best(model, shared))

    def _best(self, model: Model, goal: Goal) -> list[Plan]:
        """One a engine, by the planner's own order."""
        ranked = ordered(self._fitting(model, goal))
        return list({way.plan.engine: way.plan for way in reversed(ranked)}.values())

    def _fitting(self, model: Model, goal: Goal) -> list[Way]:
        try:
            ways = self.ways(model, goal)
        except UprightError:
            return []
        return [
            way
            for way in ways
            if way.plan.fits and (self.engines is None or way.plan.engine in self.engines) and self._on_gpus(way.plan)
        ]

    def _on_gpus(self, plan: Plan) -> bool:
        """A box with GPUs is tried on them: experts in system RAM say little of a GPU."""
        return not self.box.gpus or not any(place.device == "host" for place in plan.expert_places)


def artifacts_for(box: Box) -> list[Model]:
    """Those of the catalogue that no bound rules out, the smallest first."""
    builds = ((row, artifact) for row in catalog.models() for artifact in row.artifacts)
    models = [
        model
        for row, artifact in builds
        if ruled_out(row, artifact, box, None) is None and (model := record(row, artifact)) is not None
    ]
    return sorted(models, key=lambda model: (model.tensor_bytes, model.source))


def smallest(models: Iterable[Model], source: CellSource) -> list[FieldCell]:
    """Of the smallest artifact that fits; then of the smallest for each engine that does not load that one."""
    usual = (name for name, engine in ENGINES.items() if not engine.by_name_only)
    wanted = source.engines or [name for name in usual if offered_on(name, source.box)]
    cells: list[FieldCell] = []
    for model in islice(models, _MOST_SMALL):
        known = {cell.plan.engine for cell in cells}
        cells += [cell for cell in source.cells(model) if cell.plan.engine not in known]
        if {cell.plan.engine for cell in cells} >= set(wanted):
            break
    return cells


def _parallel_words(parallel: Parallel) -> str:
    named = {"TP": parallel.tensor, "PP": parallel.pipeline, "DP": parallel.data, "DCP": parallel.decode_context}
    return "".join(f" {name}{count}" for name, count in named.items() if count > 1) + (" EP" if parallel.expert else "")
