"""Box + Model + Goal -> [Plan]: one artifact with every engine, spread and cache type that is tried, in no order.

No rule of thumb decides before the bytes and the milliseconds do; which is the best is said in `rule`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from upright.base.units import format_tokens
from upright.engines import engine_named
from upright.engines.facets.budget import GpuShare, Margin
from upright.engines.facets.spread import Layers, Ranks
from upright.engines.gpu_settings import dense_mla
from upright.facts.records.box import Box
from upright.facts.records.model import Model
from upright.facts.records.plan import Goal, Note, Objection, Parallel, Plan, Use
from upright.planning.choosing import engine_constraints
from upright.planning.choosing.goal_checks import (
    cache_objection,
    fp8_patch,
    has_compressed_attention,
    rank_objections,
    sparse_mla,
)
from upright.planning.choosing.gpu_selections import best_selections
from upright.planning.choosing.unknown import (
    incomplete_objection,
    known_by_name_note,
    missing_terms,
    unknown_engine_plan,
    upper_bound_model,
    without_promises,
)
from upright.planning.memory.kvcache import cache_shape
from upright.planning.placement import gpu_memory_utilization as fractions
from upright.planning.placement.asked_layers import layers_asked
from upright.planning.placement.cpu import CpuCase, cpu_build, plan_on_cpu
from upright.planning.placement.devices import HOST, NO_GPU, gpus, same_kind
from upright.planning.placement.engine_support import engines_for, layers_of, ranks_of
from upright.planning.placement.ranks import RankCase, plan_on_ranks
from upright.planning.placement.unequal_gpus import one_capability
from upright.planning.speed.assumed_bandwidth import ram_note
from upright.planning.speed.expected import expected_speed
from upright.planning.speed.predict import Unknown, image_patches, known_image, speed_constants

if TYPE_CHECKING:
    from upright.facts.records.kernel import KernelVerdict
    from upright.facts.records.residuals import Residuals
    from upright.planning.memory.earlier_starts import EarlierStarts

# Where a deployment starts if it is not specified: agents carry a repository, chats a conversation, batches a page.
START_CONTEXTS: dict[Use, int] = {"coding-agent": 65_536, "chat": 32_768, "batch": 8_192, "long-documents": 131_072}

_UNMEASURED = Unknown("such weights are unpacked on this GPU, in no measured run; upright tools calibrate measures it")


def start_context(model: Model, use: Use = "coding-agent") -> int:
    """The safe start of this use, or what the model was made for if that is less."""
    wanted = START_CONTEXTS[use]
    return min(wanted, model.architecture.context_limit_tokens or wanted)


class _Wanted(NamedTuple):
    """One artifact for one engine."""

    model: Model
    goal: Goal
    engine: str
    version: str | None
    context: int
    made_from: tuple[str, ...]
    taught: EarlierStarts | None


class Configurations:
    """One box and what was planned on it: digests are made once."""

    def __init__(self, box: Box, verdicts: Sequence[KernelVerdict] = (), measured: Sequence[Residuals] = ()) -> None:
        self._box = box
        self._verdicts = verdicts
        self._measured = measured
        self._box_reference = box.reference
        self._references: dict[str, str] = {}
        self._shown: tuple[int, ...] = ()
        self._selections: dict[tuple[int, ...], Configurations] = {}

    def of(self, model: Model, goal: Goal) -> list[Plan]:
        if not self._shown and self._box.mixed and goal.nodes == 1:
            return best_selections(self._box, goal, lambda chosen: self._with_only(chosen).of(model, goal))
        return [
            self._finished(candidate.model_copy(update={"gpus": self._shown}), model, goal)
            for candidate in self._plans(model, goal)
        ]

    def _with_only(self, shown: tuple[int, ...]) -> Configurations:
        """As an engine plans that is shown these GPUs alone."""
        if shown not in self._selections:
            alone = Configurations(self._box.with_only(shown), self._verdicts, self._measured)
            alone._shown, alone._box_reference, alone._references = shown, self._box_reference, self._references
            self._selections[shown] = alone
        return self._selections[shown]

    def _plans(self, model: Model, goal: Goal) -> Iterator[Plan]:
        context = goal.context_tokens or start_context(model, goal.use)
        if model.source not in self._references:
            self._references[model.source] = model.reference
        made_from = (self._box_reference, self._references[model.source])
        for engine, problem in engines_for(model, goal, self._box):
            version = goal.engine_version or _version_of(goal.image, self._box, engine)
            taught = self._lessons(engine, version)
            for made in self._of_engine(
                _Wanted(upper_bound_model(model), goal, engine, version, context, made_from, taught)
            ):
                yield _objecting(taught.noted(made) if taught else made, (problem,) if problem else ())

    def _of_engine(self, wanted: _Wanted) -> Iterator[Plan]:
        """By what the engine says of itself; what it does not say is not taken from another."""
        engine = engine_named(wanted.engine)
        spread, budget = engine.spread, engine.budget
        lacking = missing_terms(engine, wanted.version)
        if lacking:
            yield unknown_engine_plan(
                self._box, wanted.model, wanted.goal, engine, wanted.version, wanted.context, lacking
            )
        elif isinstance(spread, Ranks) and isinstance(budget, GpuShare):
            yield from _on_ranks(self._box, wanted, spread, budget)
        elif isinstance(spread, Layers) and isinstance(budget, Margin):
            from upright.planning.placement.layers import LayerCase, plan_in_layers

            case = LayerCase(
                self._box,
                wanted.model,
                wanted.goal,
                wanted.engine,
                budget,
                wanted.version,
                wanted.context,
                wanted.goal.kv_dtype or next(iter(engine.cache_types), "f16"),
                wanted.made_from,
                lessons=wanted.taught,
                spread=spread,
            )
            yield plan_in_layers(case)

    def _lessons(self, engine: str, version: str | None) -> EarlierStarts | None:
        if not self._measured:
            return None
        from upright.planning.memory.earlier_starts import earlier_starts

        return earlier_starts(self._measured, self._box, engine, version)

    def _finished(self, done: Plan, model: Model, goal: Goal) -> Plan:
        """With its speed, and what kernels and builds object to."""
        judged = [
            verdict
            for verdict in self._verdicts
            if verdict.verdict != "could-not-determine"
            and verdict.concerns(done.engine, done.engine_version, done.kv.dtype)
        ]
        objections = [no for no in (incomplete_objection(model), *(verdict.objection() for verdict in judged)) if no]
        if not judged:  # a kernel that was compiled is known better than the catalogue knows it
            known = cache_objection(model, self._box, goal, done.engine, done.engine_version, done.kv.dtype)
            objections += [known] if known else []
        if done.engine_version is not None:
            from upright.planning.choosing.releases import advisory_findings
            from upright.planning.choosing.releases import release_findings as by_release

            for against, notes in (by_release(done, model, self._box), advisory_findings(done)):
                objections += against
                done = done.model_copy(update={"notes": (*done.notes, *notes)})
        if goal.image and known_image(goal.image) is None and ranks_of(done.engine):
            message = f"the catalogue does not know the image {goal.image}: planned as upstream"
            done = done.model_copy(update={"notes": (*done.notes, Note(code="unknown-image", message=message))})
        done = _objecting(done, objections)
        if done.memory_fraction is not None or layers_of(done.engine):
            rules = engine_constraints.EngineRules(model, self._box, goal, done.engine, done.engine_version)
            done = engine_constraints.with_constraints(done, rules, cache_known=bool(judged))
        if model.not_understood:
            return without_promises(done, model)
        finished = _too_slow(self._with_speed(with_placement_capacity(done), model))
        remarks = (
            ram_note(finished, self._box),
            known_by_name_note(finished, model),
        )
        told = [note for note in remarks if note]
        return finished.model_copy(update={"notes": (*finished.notes, *told)}) if told else finished

    def _with_speed(self, done: Plan, model: Model) -> Plan:
        if beyond := {objection.code for objection in done.objections} & {"pool-too-small", "context-too-long"}:
            lacking = "the KV cache does not hold" if "pool-too-small" in beyond else "the model was not made for"
            why = f"{lacking} {done.goal.users} x {format_tokens(done.context_tokens)} tokens at once"
            note = Note(code="speed-unknown", message=f"speed is not known: {why}")
            return done.model_copy(update={"notes": (*done.notes, note)})
        unmeasured = any(note.code == engine_constraints.UNMEASURED for note in done.notes)
        rates = _UNMEASURED if unmeasured else expected_speed(done, model, self._box)
        if isinstance(rates, Unknown):
            note = Note(code="speed-unknown", message=f"speed is not known: {rates.why}")
            return done.model_copy(update={"notes": (*done.notes, note)})
        if done.parallel.nodes > 1:
            from upright.planning.choosing.multi_node import with_network_time

            return done.model_copy(update={"speed": with_network_time(done, rates, model)})
        return done.model_copy(update={"speed": rates})


def _on_ranks(box: Box, wanted: _Wanted, ranks: Ranks, share: GpuShare) -> Iterator[Plan]:
    """One plan for each number of DCP ranks."""
    devices = gpus(box)
    model, goal, engine, version = wanted.model, wanted.goal, wanted.engine, wanted.version
    context, made_from, taught = wanted.context, wanted.made_from, wanted.taught
    rules = engine_constraints.EngineRules(model, box, goal, engine, version)
    dtype = goal.kv_dtype or rules.cache_type(_usual_dtype(model, engine, share, goal))
    if not devices and (build := cpu_build(engine, version)):
        case = CpuCase(box, model, goal, engine, build, version, context, dtype, made_from, taught)
        yield plan_on_cpu(case)
        return
    same = same_kind(devices)
    stages = Parallel(pipeline=len(devices))
    asked = (goal.tensor_parallel in (None, 1), goal.pipeline_parallel in (None, len(devices)), not goal.data_parallel)
    by_stages = not same and ranks.uneven_stages is not None and one_capability(box) and all(asked)
    layouts = [
        [
            spread.model_copy(update={"decode_context": sharing})
            for sharing in _shares(model, goal, ranks, version, spread)
        ]
        for spread in engine_constraints.parallel_layouts(rules, len(devices), dtype)
    ]
    if by_stages:
        layouts = [[stages]]
    elif ranks.replicas_in_ranks is not None and (
        replicated := engine_constraints.replicated_attention(model, goal, len(devices))
    ):
        layouts.append([replicated])
    fitting = False
    for layout in rules.open(layouts, dtype):
        spread = layout[0]
        if fitting and spread.ranks > layouts[0][0].ranks:
            break
        problems = tuple(
            rank_objections(model, goal, engine, ranks, version, len(devices), spread, same=same or by_stages)
        )
        used = devices[: spread.ranks] or (NO_GPU,)
        fraction, why = fractions.choose(share, goal.memory_fraction, used[0], spread.tensor * spread.data)
        if goal.memory_fraction is None:
            fraction, why = rules.fraction(fraction, why)
        # Without a run of DCP on such a build, it is used only as far as the goal needs: it is a tuning step else.
        row = speed_constants(box, engine, version, spread.ranks, goal.image, model)
        for_speed = row is not None and row.row.sharing_measured and row.row.basis == "measured"
        for parallel in layout:
            done = plan_on_ranks(
                RankCase(
                    box, model, goal, engine, ranks, share, version, used, parallel, context, dtype, fraction, why,
                    made_from, taught,
                )
            )  # fmt: skip
            done = done.model_copy(update={"notes": (*done.notes, *rules.left_out())})
            yield _objecting(done, problems)
            fitting = fitting or (done.fits and not problems)
            if (done.fits and not for_speed) or any(
                objection.code == "weights-too-large" for objection in done.objections
            ):
                break


def _shares(model: Model, goal: Goal, ranks: Ranks, version: str | None, spread: Parallel) -> Sequence[int]:
    """Ranks that may share one copy of the cache."""
    if goal.decode_context_parallel is not None:
        return (goal.decode_context_parallel,)
    if not ranks.sharing.able(version):
        return (1,)
    shape, tensor = cache_shape(model.architecture, "bf16"), spread.tensor
    replicas = tensor if shape.heads_shared is None else max(1, tensor // shape.heads_shared)
    return [share for share in range(1, replicas + 1) if tensor % share == 0]


def _usual_dtype(model: Model, engine: str, share: GpuShare, goal: Goal) -> str:
    """The cache type to start with: fp8 only where the build is known to carry it."""
    if sparse_mla(model) and share.cache.sparse_latent is not None:
        return share.cache.sparse_latent
    if has_compressed_attention(model):
        return share.cache.sparse_latent or "fp8"
    return "fp8" if dense_mla(model) and fp8_patch(engine) in image_patches(goal.image) else "bf16"


def _too_slow(done: Plan) -> Plan:
    wanted, found = done.goal.minimum_tokens_per_second, done.speed
    if wanted is None or (found is not None and found.decode.high >= wanted):
        return done
    if found is None:
        asked = f"whether {wanted:g} tok/s are reached is not known"
        return _objecting(done, (Objection(code="speed-unknown", message=asked, remedy="upright bench measures it"),))
    message = f"{wanted:g} tok/s are asked for, at most {found.decode.high:g} can be expected ({found.why})"
    return _objecting(done, (Objection(code="too-slow", message=message),))


def _objecting(done: Plan, objections: Sequence[Objection]) -> Plan:
    return done.model_copy(update={"objections": (*objections, *done.objections)}) if objections else done


def _version_of(image: str | None, box: Box, engine: str) -> str | None:
    """What the image holds, or without one what is installed on the box."""
    if image is not None:
        row = known_image(image)
        return row.version if row and row.engine == engine else None
    return next((install.version for install in box.engines if install.engine == engine), None)


def with_placement_capacity(plan: Plan) -> Plan:
    """With the tokens and users that were asked for, where experts on GPUs fill what the cache leaves.

    What their last layer happens to leave over would be less with more memory, and is not promised.
    """
    in_ram = any(place.device == HOST for place in plan.expert_places)
    if plan.memory_fraction is not None or not plan.expert_places or (plan.fits and not in_ram):
        return plan
    if layers_asked(plan.goal.place) is not None:
        return plan  # what the experts leave over is the cache's
    best = min(plan.kv.capacity_tokens, plan.kv.planned_tokens)
    low = best if plan.fits else min(plan.kv.low_tokens, best)
    kv = plan.kv.model_copy(update={"low_tokens": low, "capacity_tokens": best, "high_tokens": best})
    return plan.model_copy(update={"kv": kv, "users_at_context": low // plan.context_tokens})
