"""The configurations that an engine's constraints allow, and the objections to the others.

A configuration that a row refuses is not offered where another is left; where none is, it is an objection.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from upright.engines.constraints import Breach, Situation, breaches, circumstances, plan_situation, relevant_constraints
from upright.facts.catalog.rows.constraint import ConstraintRow
from upright.facts.records.box import Box
from upright.facts.records.model import MlaAttention, Model
from upright.facts.records.plan import Goal, Note, Objection, Parallel, Plan
from upright.facts.records.recipe import Circumstances
from upright.planning.choosing.goal_checks import heads_divide, most_ranks
from upright.planning.speed.predict import image_patches

FORBIDDEN = "constraint"
UNWISE = "constraint-unwise"
UNMEASURED = "constraint-unmeasured"
NOT_OFFERED = "not-offered"
_CACHE_TYPES = ("fp8_e4m3", "fp8", "fp8_ds_mla", "bf16")
REPLICAS_FROM_USERS = 32
"""Replicas of attention are usual for latent attention from so many users: below, one user's step takes longer."""
_OPTIONS = {"decode_context": "DCP", "expert_width_per_rank": "TP"}


@dataclass(frozen=True)
class EngineRules:
    """One engine's constraints for one artifact on one box."""

    model: Model
    box: Box
    goal: Goal
    engine: str
    version: str | None
    refused: dict[str, tuple[Breach, list[Parallel]]] = field(default_factory=dict)
    """What was left out so far, by row."""

    @cached_property
    def about(self) -> Circumstances:
        return circumstances(self.model, self.box, self.goal.image, image_patches(self.goal.image))

    @cached_property
    def _rows(self) -> tuple[ConstraintRow, ...]:
        return relevant_constraints(self._situation(Parallel(), "bf16"))

    def broken(self, parallel: Parallel, dtype: str, fraction: float | None = None) -> tuple[Breach, ...]:
        return breaches(self._situation(parallel, dtype, fraction), self._rows)

    def _situation(self, parallel: Parallel, dtype: str, fraction: float | None = None) -> Situation:
        draft = self.goal.draft
        return plan_situation(
            self.engine, self.version, self.about, parallel, dtype, memory_fraction=fraction, draft=draft
        )

    def cache_type(self, usual: str) -> str:
        """The usual one, or the first that no row speaks against where a row does."""
        one = Parallel()
        for dtype in (usual, *_CACHE_TYPES):
            if not any(breach.row.demand.fact == "cache_type" for breach in self.broken(one, dtype)):
                return dtype
        return usual

    def fraction(self, usual: float, why: str) -> tuple[float, str]:
        """The usual share of a GPU, or as much as the rows leave."""
        broken = self.broken(Parallel(), "bf16", usual)
        bounds = [breach.row for breach in broken if breach.row.demand.fact == "memory_fraction"]
        caps = {row.demand.at_most: row.id for row in bounds if row.demand.at_most is not None}
        if not caps:
            return usual, why
        least = min(caps)
        return least, f"constraints/{caps[least]}"

    def open(self, layouts: Iterable[Sequence[Parallel]], dtype: str) -> list[Sequence[Parallel]]:
        """Those that no row refuses; all of them if none is left, so that a plan can say what stands in its way."""
        everything = [tuple(layout) for layout in layouts]
        left = [tuple(parallel for parallel in layout if self._allowed(parallel, dtype)) for layout in everything]
        return [layout for layout in left if layout] or list(everything)

    def _allowed(self, parallel: Parallel, dtype: str) -> bool:
        against = [breach for breach in self.broken(parallel, dtype) if breach.refused]
        for breach in against:
            self.refused.setdefault(breach.row.id, (breach, []))[1].append(parallel)
        return not against

    def left_out(self) -> tuple[Note, ...]:
        """What is not offered, and why."""
        return tuple(
            Note(code=NOT_OFFERED, message=f"{_names(layouts)} not offered: {breach.sentence}")
            for breach, layouts in self.refused.values()
        )


def with_constraints(plan: Plan, rules: EngineRules, *, cache_known: bool) -> Plan:
    """With what stands against it, and what is unwise. What somebody compiled, or another row said, is left to that."""
    objections, notes = list(plan.objections), list(plan.notes)
    told = " ".join(objection.message for objection in objections)
    for breach in rules.broken(plan.parallel, plan.kv.dtype, plan.memory_fraction):
        row = breach.row
        if (cache_known and row.demand.fact == "cache_type") or any(name in told for name in row.rows):
            continue
        instead = row.instead.rstrip(".")
        if breach.refused:
            objections.append(Objection(code=FORBIDDEN, message=breach.sentence, remedy=row.remedy or instead))
        else:
            notes.append(Note(code=UNMEASURED if row.unmeasured else UNWISE, message=breach.sentence, remedy=instead))
    return plan.model_copy(update={"objections": tuple(objections), "notes": tuple(notes)})


def parallel_layouts(rules: EngineRules, count: int, dtype: str) -> Iterator[Parallel]:
    """Ranks and stages: over several boxes stages go across, or ranks do; other splits where a row is against one."""
    model, goal = rules.model, rules.goal
    replicas = goal.data_parallel or 1
    whole = bool(goal.expert_parallel) or replicas > 1
    if goal.nodes > 1 and not (goal.tensor_parallel or goal.pipeline_parallel or replicas > 1):
        yield Parallel(tensor=most_ranks(model, count // goal.nodes), pipeline=goal.nodes, nodes=goal.nodes)
        if (across := most_ranks(model, count)) > count // goal.nodes and across % goal.nodes == 0:
            yield Parallel(tensor=across, nodes=goal.nodes)
        return
    stages = goal.pipeline_parallel or 1
    tensor = goal.tensor_parallel or most_ranks(model, count // (stages * replicas))
    first = Parallel(tensor=tensor, pipeline=stages, nodes=goal.nodes, expert=whole, data=replicas)
    yield first
    asked = goal.spread_asked or goal.expert_parallel is not None
    if not asked and any(breach.row.demand.fact == "expert_width_per_rank" for breach in rules.broken(first, dtype)):
        yield from _other_splits(model, tensor)
    if not asked and tensor < count:  # last, all GPUs by stages: where ranks leave some idle and do not hold it
        wide = next(ranks for ranks in range(tensor, 0, -1) if count % ranks == 0 and heads_divide(model, ranks))
        yield Parallel(tensor=wide, pipeline=count // wide)


def replicated_attention(model: Model, goal: Goal, count: int) -> Parallel | None:
    """A replica of attention on each GPU, which share the experts: of latent attention every rank keeps all anyway."""
    experts, asked = model.architecture.experts, goal.spread_asked or goal.expert_parallel is False
    latent = any(isinstance(kind, MlaAttention) for kind in model.architecture.attention)
    if asked or not latent or experts is None or goal.users < REPLICAS_FROM_USERS or count < 2 or experts.count % count:
        return None
    return Parallel(data=count, expert=True)


def _other_splits(model: Model, tensor: int) -> Iterator[Parallel]:
    """Whole experts on ranks; fewer ranks with stages; fewer ranks alone."""
    experts = model.architecture.experts
    if experts is not None and experts.count % tensor == 0:
        yield Parallel(tensor=tensor, expert=True)
    for fewer in range(tensor // 2, 0, -1):
        if tensor % fewer == 0 and heads_divide(model, fewer):
            yield Parallel(tensor=fewer, pipeline=tensor // fewer)
            yield Parallel(tensor=fewer)
            return


def split_words(parallel: Parallel) -> str:
    """`TP 8`, `TP 8 with EP`, `TP 4 x PP 2`, `TP 1 x DP 8 with EP`."""
    stages = f" x PP {parallel.pipeline}" if parallel.pipeline > 1 else ""
    replicas = f" x DP {parallel.data}" if parallel.data > 1 else ""
    return f"TP {parallel.tensor}{stages}{replicas}{' with EP' if parallel.expert else ''}"


def _names(layouts: Sequence[Parallel]) -> str:
    """What the left-out configurations have in common."""
    shares = sorted({layout.decode_context for layout in layouts})
    if 1 not in shares:
        return f"DCP {', '.join(map(str, shares))}"
    return ", ".join(dict.fromkeys(split_words(layout) for layout in layouts))
