"""Box + Model + Goal -> the table of ways, best first: what every verb chooses from.

Each build of the model with each engine, spread, cache type and, where upstream cannot, image. The order is `rule`'s
alone. Builds are planned from the native one down, and only while a later one could still come before the best.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING

from upright.base.units import GIB
from upright.facts.catalog.fidelity import fidelity_of
from upright.facts.catalog.loader import catalogue_snapshot
from upright.facts.catalog.unified_memory import withheld
from upright.facts.records.base import Figure
from upright.facts.records.box import Box
from upright.facts.records.model import Model
from upright.facts.records.plan import Goal, Note, Plan
from upright.planning.choosing.configurations import Configurations
from upright.planning.choosing.estimated_sizes import may_be_placed
from upright.planning.choosing.goal_checks import cache_objection, check_goal, fp8_images
from upright.planning.choosing.nearest import SMALLER_CACHE, Larger, Planner, nearest
from upright.planning.choosing.published_notes import published_notes
from upright.planning.choosing.rule import Way, lost_much, missed_floor_words, of_like_size, ordered
from upright.planning.choosing.trades import other_ways
from upright.planning.choosing.tuning_steps import tuning_steps
from upright.planning.placement.asked_layers import check_place, refuse_needless
from upright.planning.placement.devices import RAM_NOT_SPECIFIED, gpus
from upright.planning.placement.engine_support import built_for, engines_for_artifact, has_kernels
from upright.planning.speed.rows import fitted_on

if TYPE_CHECKING:
    from upright.facts.records.kernel import KernelVerdict
    from upright.facts.records.residuals import Residuals

SMALLER = "smaller-cache"
BELOW_FLOOR = "below-floor"
COMMUNITY = "community-image"


@catalogue_snapshot()
def plan(
    box: Box,
    model: Model,
    goal: Goal | None = None,
    *,
    choose_from: Iterable[Model] = (),
    others: Iterable[Model] = (),
    verdicts: Sequence[KernelVerdict] = (),
    measured: Sequence[Residuals] = (),
    advise: Callable[[Plan], bool] = lambda best: True,
    every: bool = False,
) -> list[Plan]:
    """Ways to stand this model on this box, best first. A plan that does not fit says why in its objections.

    `choose_from` are other builds of it, which may be taken; `others` are only offered. A kernel verdict that says no
    is an objection of every plan that would launch that kernel. `measured` are earlier starts: those of this box,
    engine and version replace overheads. `advise` says whether the best plan gets its tuning steps, or what would fit
    instead, and notes on other ways and runs. `every` plans also what cannot come first.
    """
    goal = goal or Goal()
    check_goal(goal)
    check_place(goal.place, box)
    if goal.engine_version is not None:
        from upright.planning.choosing.releases import check_version

        check_version(goal)
    table = table_of(box, goal, verdicts, measured)
    ways = table.ways(model, goal, choose_from, every=every)
    plans, best = [way.plan for way in ways], ways[0]
    refuse_needless(best.plan)
    if best.plan.not_understood or not advise(best.plan):
        return plans
    if goal.nodes > 1:
        return [_beside_replicas(best, Table(box, verdicts).ways(model, _alone(goal), choose_from)), *plans[1:]]
    return [_advised(table, best, ways, model, chain(choose_from, others)), *plans[1:]]


@catalogue_snapshot()
def best_plan(box: Box, model: Model, goal: Goal, *, choose_from: Iterable[Model] = ()) -> Plan:
    """The first of `plan`, without its tuning steps, and if it does not fit without what would."""
    return table_of(box, goal).ways(model, goal, choose_from)[0].plan


def table_of(box: Box, goal: Goal, verdicts: Sequence[KernelVerdict] = (), measured: Sequence[Residuals] = ()) -> Table:
    """Of this box, or of as many joined as the goal has: what was measured on one says nothing of several."""
    if goal.nodes < 2:
        return Table(box, verdicts, measured)
    from upright.planning.choosing.multi_node import joined_boxes, network

    network(goal.link)
    return Table(joined_boxes(box, goal.nodes), verdicts)


class Table:
    """The ways of one box."""

    def __init__(self, box: Box, verdicts: Sequence[KernelVerdict] = (), measured: Sequence[Residuals] = ()) -> None:
        self.box = box
        self._verdicts = verdicts
        self._configurations = Configurations(box, verdicts, measured)

    def ways(self, model: Model, goal: Goal, choose_from: Iterable[Model] = (), *, every: bool = False) -> list[Way]:
        """Best first. `choose_from` come from the native build down."""
        found = self.of_artifact(model, goal)
        for other in choose_from:
            if not every and _settled(found, other):
                break
            if goal.engine is None and not has_kernels(other, self.box):
                continue
            if not every and self._second_by_rule(found, other):
                continue
            # A share of the GPU that was asked for is heeded, or refused; engines without one do not stand in.
            found += [
                way for way in self.of_artifact(other, goal) if goal.memory_fraction is None or way.plan.memory_fraction
            ]
        return ordered(found)

    def _second_by_rule(self, found: Sequence[Way], other: Model) -> bool:
        """Whether a build as large as the native one is for engines of which nothing was fitted on this GPU, where
        another way was: steps 6 and 7.
        """
        gpu = next((gpu.row for gpu in self.box.gpus), None)
        best = [way for way in found if way.flawless and way.fitted_here and way.fidelity.level == "native"]
        engines = set(engines_for_artifact(other))
        if gpu is None or not best or any(way.plan.engine in engines for way in best) or fitted_on(gpu) & engines:
            return False
        return any(of_like_size(way.artifact, other) for way in best)

    def of_artifact(self, model: Model, goal: Goal) -> list[Way]:
        """Of one build, in no order; with smaller cache types and community images where nothing else holds it."""
        plans = self._configurations.of(model, goal)
        if not any(plan.fits for plan in plans):
            plans += [found for less in self._with_less(model, goal, plans) for found in less]
        fidelity = fidelity_of(model)
        return [Way(plan, model, self.box, fidelity) for plan in plans]

    def best(self, model: Model, goal: Goal) -> Plan:
        """Of one build as it is asked for: no other cache type, no image."""
        fidelity = fidelity_of(model)
        return ordered(Way(plan, model, self.box, fidelity) for plan in self._configurations.of(model, goal))[0].plan

    def with_gpus(self, builds: Sequence[Model]) -> Callable[[int, Goal], Plan | None]:
        """The best plan of these builds with so many of the first GPU; None if the memory of all holds none of them."""
        first = self.box.gpus[0]

        def best(count: int, goal: Goal) -> Plan | None:
            more = tuple(first.model_copy(update={"index": index}) for index in range(count))
            table = Table(self.box.model_copy(update={"gpus": more}), self._verdicts)
            held = [model for model in builds if may_be_placed(model, table.box)]
            return table.ways(held[0], goal, held[1:])[0].plan if held else None

        return best

    def with_ram(self, gib: int) -> Planner:
        """Plans with so much system RAM."""
        memory = Figure(value=gib * GIB, basis="assumed", source="--ram")
        box = self.box.model_copy(update={"memory_bytes": memory, "memory_available_bytes": memory})
        return Table(box, self._verdicts).best

    def with_image(self, engine: str, model: Model, goal: Goal) -> list[Plan]:
        """By the newest community image that carries an fp8 cache, where upstream cannot read one here."""
        images = [image for image in fp8_images(engine) if built_for(image, self.box)]
        if not images or goal.image or goal.engine_version or any(known.engine == engine for known in self.box.engines):
            return []
        if goal.kv_dtype not in (None, "fp8") or not cache_objection(model, self.box, goal, engine, None, "fp8"):
            return []
        by_image = goal.model_copy(update={"image": images[-1], "engine": engine})
        message = (
            f"by the community image {images[-1]}: upstream {engine} cannot read an fp8 cache of such attention here"
        )
        note = Note(code=COMMUNITY, message=message, remedy="prove it at full context")
        return [_noted(plan, note) for plan in self._configurations.of(model, by_image)]

    def _with_less(self, model: Model, goal: Goal, plans: Sequence[Plan]) -> Iterator[list[Plan]]:
        short = [plan for plan in plans if plan.objections and _only_short_of_cache(plan)]
        for engine in dict.fromkeys(plan.engine for plan in plans):
            yield self.with_image(engine, model, goal) if goal.kv_dtype or short else []
        for engine, usual in dict.fromkeys((plan.engine, plan.kv.dtype) for plan in short if goal.kv_dtype is None):
            if (dtype := SMALLER_CACHE.get(usual)) is not None:
                less = goal.model_copy(update={"kv_dtype": dtype, "engine": engine})
                holds = f"KV cache in {dtype}: in {usual} it would not hold what is asked"
                note = Note(code=SMALLER, message=f"{holds}; what {dtype} loses of this model was not measured")
                yield [_noted(plan, note) for plan in self._configurations.of(model, less)]


def _settled(found: Sequence[Way], other: Model) -> bool:
    """Whether no way of this build, or of those after it, could come first."""
    nearness = lost_much(fidelity_of(other))
    return any(way.flawless and lost_much(way.fidelity) < nearness for way in found)


def _only_short_of_cache(plan: Plan) -> bool:
    """Whether a smaller cache type may be all that it takes."""
    cache_bytes = plan.kv.planned_tokens * (plan.kv.low_bytes_per_token or 0)
    return all(
        objection.code in ("pool-too-small", "cache-not-supported")
        or (objection.code == "does-not-fit" and (objection.short_bytes or 0) < cache_bytes)
        for objection in plan.objections
    )


def _noted(plan: Plan, note: Note) -> Plan:
    return plan.model_copy(update={"notes": (*plan.notes, note)})


def _advised(table: Table, best: Way, ways: Sequence[Way], native: Model, known: Iterable[Model]) -> Plan:
    plan, artifact = best.plan, best.artifact
    if not plan.fits:
        builds = list({model.name: model for model in (native, *known)}.values())
        offered = [model for model in builds if model is native or may_be_placed(model, table.box)]
        larger = Larger(table.with_gpus(builds), table.with_ram) if _can_grow(table.box) else None
        found = nearest(plan, artifact, offered, table.best, larger)
        return plan.model_copy(update={"nearest": found})
    climb = tuning_steps(plan, artifact, lambda changed: table.best(artifact, changed), withheld(table.box))
    beside = [*ways[1:], *_beside(table, best, ways, known)]
    published = published_notes(plan, artifact, table.box)
    notes = (*plan.notes, *_floor_notes(plan), *_ram_notes(best, ways), *other_ways(best, beside), *published)
    return plan.model_copy(update={"rungs": climb, "notes": notes})


def _floor_notes(plan: Plan) -> Iterator[Note]:
    if missed := missed_floor_words(plan):
        yield Note(code=BELOW_FLOOR, message=f"slow for {plan.goal.use}: {missed}")


def _ram_notes(best: Way, ways: Sequence[Way]) -> Iterator[Note]:
    """What nobody said of system RAM may be all that stands before weights that lost less."""
    for way in ways if best.lost > 1 else ():
        if way.lost < 2 and [no.code for no in way.plan.objections] == [RAM_NOT_SPECIFIED]:
            needed = way.plan.objections[0].remedy
            message = f"system RAM is not specified: {way.plan.model}, of which little is lost, may fit with enough"
            yield Note(code=RAM_NOT_SPECIFIED, message=message, remedy=needed)
            return


def _beside(table: Table, best: Way, ways: Sequence[Way], known: Iterable[Model]) -> Iterator[Way]:
    """What may be worth a line though it cannot come first: a community image, and the next build."""
    plan = best.plan
    if plan.goal.image is None and plan.goal.kv_dtype is None:
        by_image = table.with_image(plan.engine, best.artifact, plan.goal)
        yield from (Way(found, best.artifact, table.box, best.fidelity) for found in by_image)
    planned = {way.artifact.name for way in ways}
    other = next((model for model in known if model.name not in planned), None)
    if other is not None and lost_much(fidelity_of(other)) < 2:
        yield from table.of_artifact(other, plan.goal)


def _alone(goal: Goal) -> Goal:
    return goal.model_copy(update={"nodes": 1, "link": None, "tensor_parallel": None, "pipeline_parallel": None})


def _beside_replicas(best: Way, of_one_box: Sequence[Way]) -> Plan:
    """With a word on a replica on each box, by the best there of which no more is lost."""
    from upright.planning.choosing.multi_node import replica_notes

    alone = next((way for way in of_one_box if way.lost <= best.lost), of_one_box[0])
    notes = replica_notes(best.plan, alone.plan)
    return best.plan.model_copy(update={"notes": (*best.plan.notes, *notes)})


def _can_grow(box: Box) -> bool:
    """Whether more of the same GPU could be put in: not where there is none, or where it is soldered to the memory, or
    where it is not said which of several kinds.
    """
    devices = gpus(box)
    return bool(devices) and not box.mixed and not any(device.unified for device in devices)
