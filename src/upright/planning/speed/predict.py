"""The predicted speed of a plan: every term of a step, a band, and where both come from."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from upright.engines.model_settings import planned_draft
from upright.facts import catalog
from upright.facts.catalog.model_records import row_of
from upright.facts.catalog.published_rates import PublishedRate
from upright.facts.catalog.rows.engine import ImageRow
from upright.facts.catalog.rows.hardware import GpuRow
from upright.facts.catalog.rows.speed import SpeedRow
from upright.facts.records.base import Basis
from upright.facts.records.box import Box, Gpu
from upright.facts.records.model import Model
from upright.facts.records.plan import Plan, Rate, Speed, SpeedTerm, Turn
from upright.planning.placement.engine_support import ranks_of
from upright.planning.speed.assumed_bandwidth import host_bandwidth
from upright.planning.speed.decode import Amount, DecodeStep, compute_bound, decode_step, step_amounts
from upright.planning.speed.layered import HostFigures, Layered, layered_prompt, layered_step
from upright.planning.speed.own_runs import OwnRuns, own_runs
from upright.planning.speed.prefill import CHUNK_TOKENS, prefill_amounts, prefill_interference
from upright.planning.speed.prefill_reach import PromptPrice, prompt_price
from upright.planning.speed.rows import AskedOf, ChosenRow, choose_row, interconnect_of, machine_of
from upright.planning.speed.speed_band import (
    WIDEST,
    RateBand,
    SpeedQuery,
    attention_known,
    expert_format,
    nearest_errors,
    rate_band,
    shape_name,
)
from upright.planning.speed.term_words import term_words
from upright.planning.speed.turns import turn
from upright.planning.speed.work import GpuFigures, GpuPart, Work, rank_work

DRAFT_TOKENS = 3
# What drafts of Kimi K2.6 and GLM-5.1 were accepted at in 236 published cells, 5th to 95th percentile; the ends of a
# band, never a figure.
ACCEPTED = (0.21, 0.56)
# Tokens of a prompt for each of its answer, in the served loads that were fitted.
PROMPT_PER_ANSWER = 8
WEAKER: tuple[Basis, ...] = ("measured", "catalog", "read", "probed", "derived", "assumed")
_STORED = ("weights", "replicated_weights", "absorbed_weights")
# Bytes a second and lane, one way.
_LANE = {3: 0.985e9, 4: 1.969e9, 5: 3.938e9, 6: 7.563e9}


class SpeedCase(NamedTuple):
    """What the amounts are counted on: ranks, or layers on devices."""

    plan: Plan
    row: SpeedRow
    work: Work
    silicon: GpuFigures | None
    layered: Layered | None

    def step(self, context: float, *, more_layers: int = 0, users: int | None = None) -> DecodeStep:
        """As users see it: beside the step itself its share of the prompts that others bring meanwhile."""
        skew, users = self.row.constants.expert_skew, users or self.plan.goal.users
        step = self.amounts(users, context, skew, more_layers=more_layers)
        return decode_step((*step, *self._others_prompts(users, int(context))), self.row.constants)

    def amounts(self, batch: int, context: float, skew: float, *, more_layers: int = 0) -> Iterable[Amount]:
        if self.layered is not None:
            placed = self.layered
            moved = placed._replace(host_layers=placed.host_layers - more_layers)
            return layered_step(moved, self.row.kernels, batch=batch, context=context, skew=skew)
        assert self.silicon is not None
        guesses = DRAFT_TOKENS if self.plan.goal.draft else 0
        return step_amounts(
            self.work, self.silicon, self.row.kernels, batch=batch, context=context, guesses=guesses, skew=skew
        )

    def _others_prompts(self, batch: int, context: int) -> Iterable[Amount]:
        """Where the constants were fitted on served loads: a step's share of the prompts that are read meanwhile.

        What of a longer context is new at a turn was not measured: prompts are as long beside an answer as they were.
        """
        answer = self.row.answer_tokens
        if answer is None or self.silicon is None or batch < 2 or not context:
            return ()
        prompt = prefill_amounts(self.work, self.silicon, min(context, PROMPT_PER_ANSWER * answer))
        return prefill_interference(prompt, batch, answer / self._tokens_a_step())

    def _tokens_a_step(self) -> float:
        """With a draft an answer takes fewer steps, and each meets more of the prompts."""
        if not self.plan.goal.draft:
            return 1.0
        fewest, most = ACCEPTED
        accepted = self.plan.goal.acceptance
        return 1 + DRAFT_TOKENS * ((fewest + most) / 2 if accepted is None else accepted)

    def compute_bound(self, context: float) -> bool:
        """Whether so many tokens a step are more to multiply than the constants know of."""
        silicon = self.silicon or (self.layered.silicon if self.layered else None)
        if silicon is None:
            return False
        rows = self.plan.goal.users * (DRAFT_TOKENS + 1 if self.plan.goal.draft else 1)
        return compute_bound(self.work, silicon, self.row.constants, rows, self.step(context).seconds)

    def prompt(self, tokens: int) -> DecodeStep | None:
        found = self.prompt_amounts(tokens)
        return None if found is None else decode_step(found, self.row.constants)

    def prompt_amounts(self, tokens: int, depth: int = 0) -> Iterable[Amount] | None:
        if self.layered is not None:
            return layered_prompt(self.layered, self.row.kernels, tokens, self.plan.ubatch_tokens or 512, depth)
        assert self.silicon is not None
        return prefill_amounts(self.work, self.silicon, tokens, self.plan.ubatch_tokens or CHUNK_TOKENS, depth)


class Unknown(NamedTuple):
    """Why no speed is printed."""

    why: str


def speed(plan: Plan, model: Model, box: Box) -> Speed | Unknown:
    """Unknown where nothing like it was measured, or a figure that the constants are shares of is not known.

    *box* is what the engine sees: `plan.box_in_use`.
    """
    ranks = plan.parallel.ranks
    if plan.parallel.data > 1:
        return Unknown("replicas of attention that share experts were not measured; upright bench measures it")
    chosen = speed_constants(box, plan.engine, plan.engine_version, ranks, plan.goal.image, model)
    case = speed_case(plan, model, box, chosen.row) if chosen and attention_known(model.architecture) else None
    own = None if case is None or case.row.owner == "user" else _own_decode(case, model, box)
    load = speed_query(plan, model, box, chosen)
    if chosen is None or not (own or chosen.at_home or (chosen.of_sibling and nearest_errors(chosen.row, load))):
        gpu = box.gpus[0].name if box.gpus else "this CPU"
        return Unknown(
            f"no measurement of {plan.engine} on {gpu}, or on its architecture and interconnect; measure it: upright "
            "bench, upright tools calibrate"
        )
    if not attention_known(model.architecture):
        return Unknown("how fast a compressed or shared cache is read was not measured; upright bench measures it")
    if case is None:
        return Unknown(_missing_figure(plan, box))
    if case.layered is not None and case.silicon is None and case.work.recurrent_layers:
        return Unknown(
            "layers with a recurrent state on a processor are not known: two engines were 2.2 times apart; measure it: "
            "upright bench, upright tools calibrate"
        )
    if not own and case.compute_bound(plan.context_tokens / 2):
        return Unknown(f"{plan.goal.users} concurrent users are limited by compute here, which no measured run was")
    factors = rate_band(chosen.row, load) if chosen.tells else None
    bands = DecodeBands(factors, own, plan)
    if bands.missing:
        return Unknown(_too_far(chosen.row, factors))
    if plan.goal.draft and plan.goal.acceptance is None:
        if planned_draft(row_of(model), plan, box) is None:
            return Unknown("the catalogue knows no draft for this model on this silicon: plan without --draft")
        assert factors is not None
        fewest, most = drafted_ends(factors.low, factors.high)
        if not chosen.row.drafts_measured:
            return Unknown("no run with a draft was measured on such GPUs by this engine: add --acceptance")
        if most > fewest * WIDEST:
            return Unknown(
                "without the acceptance rate of the draft the band is too wide to plan with: add --acceptance"
            )
    return _speed(case, chosen, load, bands, _price(case, chosen, load, model, box))


def _price(case: SpeedCase, chosen: ChosenRow, load: SpeedQuery, model: Model, box: Box) -> PromptPrice | None:
    if not chosen.tells:
        return None
    capability = box.gpus[0].compute_capability if box.gpus else None
    silicon = case.silicon or (case.layered.silicon if case.layered else None)
    return prompt_price(chosen.row, load, case.work, silicon, capability)


def _own_decode(case: SpeedCase, model: Model, box: Box) -> OwnRuns | None:
    """Published runs of this setting, held against what is predicted of them: nearer than those is only what was
    measured on this very box, which a row of the person's own says."""
    plan, placed = case.plan, case.layered

    def predicted(seen: PublishedRate) -> float | None:
        more = 0
        if placed is not None and placed.host_layers and seen.gpu_expert_layers is not None:
            more = placed.host_layers - (placed.expert_layers - seen.gpu_expert_layers)
        return seen.concurrency / case.step(seen.context_tokens, more_layers=more).seconds

    return own_runs(plan, model, box, _one_shot(plan), predicted)


def _one_shot(plan: Plan) -> bool:
    return "pcie-allreduce" in image_patches(plan.goal.image)


class DecodeBands(NamedTuple):
    """What holds at which context: runs of the very setting, else the row's own."""

    factors: RateBand | None
    own: OwnRuns | None
    plan: Plan

    def at(self, context: float, users: int) -> RateBand | None:
        own = self.own if users == self.plan.goal.users else None
        return own.band(context, self.factors) if own else self.factors

    @property
    def missing(self) -> bool:
        whole = self.plan.context_tokens
        bands = (self.at(context, self.plan.goal.users) for context in (0, max(1, whole // 2), whole))
        return any(band is None or not band.known for band in bands)

    @property
    def sharper(self) -> OwnRuns | None:
        """Runs of the setting, if it is by them that the figure is known which a plan shows first."""
        half = self.at(max(1, self.plan.context_tokens // 2), self.plan.goal.users)
        return None if half is self.factors else self.own


def speed_query(plan: Plan, model: Model, box: Box, chosen: ChosenRow | None) -> SpeedQuery:
    return SpeedQuery(
        shape=shape_name(model.architecture),
        expert_format=expert_format(model),
        gpu=box.gpus[0].row if box.gpus else None,
        version=plan.engine_version,
        users=plan.goal.users,
        context_tokens=plan.context_tokens,
        on_gpus=bool(box.gpus) and not any(place.device == "host" for place in plan.expert_places),
        of_sibling=chosen is not None and chosen.of_sibling,
    )


def _missing_figure(plan: Plan, box: Box) -> str:
    if any(place.device == "host" for place in plan.expert_places) or not box.gpus:
        return "the bandwidth of system RAM is not specified: add --host-bandwidth GB/S"
    return f"the catalogue lacks the bandwidth, the multiprocessors or the throughput of {box.gpus[0].name}"


def _too_far(row: SpeedRow, factors: RateBand | None) -> str:
    if factors and not factors.steps:
        apart = f"the few published runs that speeds/{row.id} was fitted on lie too far apart for a band"
        return f"{apart}; measure it: upright bench, upright tools calibrate"
    steps = ", ".join(STEP_WORDS[step] for step in factors.steps) if factors else "no held-out error is known"
    return (
        f"too far from what speeds/{row.id} was fitted on ({steps}); measure it: upright bench, upright tools calibrate"
    )


def _speed(
    case: SpeedCase, chosen: ChosenRow, load: SpeedQuery, bands: DecodeBands, price: PromptPrice | None
) -> Speed:
    plan, rates = case.plan, _Rates(bands)
    half = max(1, plan.context_tokens // 2)
    step, amounts = case.step(half), case.prompt_amounts(half) if price else None
    prompt = price.step(amounts) if price and amounts is not None else None
    return Speed(
        context_tokens=half,
        decode=rates.rate(step, half),
        empty=rates.rate(case.step(0), 0),
        full=rates.rate(case.step(plan.context_tokens), plan.context_tokens),
        together=rates.rate(step, half, together=plan.goal.users),
        prompt=_plain(half / prompt.seconds, price.band) if prompt and price else None,
        prompt_basis=price.basis if prompt and price else None,
        prompt_why=price.why if prompt and price else None,
        turns=_turns(case, rates, price, _basis(chosen, bands)) if prompt and price else (),
        layer_worth=_layer_worth(case, half),
        terms=(
            *_terms("decode", step, case, half, case.row),
            *(_terms("prompt", prompt, case, half, price.speeds) if prompt and price else ()),
        ),
        row=chosen.row.id,
        basis=_basis(chosen, bands),
        why=_why(chosen, load, bands, plan),
    )


def _turns(case: SpeedCase, rates: _Rates, price: PromptPrice, decode: Basis) -> tuple[Turn, ...]:
    """Of one user, and of those of the goal."""
    plan, basis = case.plan, max(decode, price.basis, key=WEAKER.index)

    def read(tokens: int, cached: int) -> float | None:
        amounts = case.prompt_amounts(tokens, cached)
        return None if amounts is None else price.step(amounts).seconds

    half = max(1, plan.context_tokens // 2)
    found = (
        turn(users, plan.context_tokens, read, price.band, rates.rate(case.step(half, users=users), half, users), basis)
        for users in dict.fromkeys((1, plan.goal.users))
        if rates.bands.at(half, users)
    )
    return tuple(each for each in found if each is not None)


def speed_constants(
    box: Box, engine: str, version: str | None, ranks: int, image: str | None, model: Model
) -> ChosenRow | None:
    """The row for these GPUs and the wires between them; of several kinds that of the one whose layers take longest."""
    capabilities = dict.fromkeys(gpu.compute_capability for gpu in box.gpus if gpu.compute_capability)
    wires, patches = interconnect_of(box, ranks), image_patches(image)
    asked = AskedOf(machine_of(box), shape_name(model.architecture), expert_format(model))
    found = [choose_row(engine, version, capability, wires, patches, asked) for capability in capabilities or [None]]
    return max((row for row in found if row), key=lambda row: (not row.tells, row.row.constants.layer_us), default=None)


def image_patches(image: str | None) -> tuple[str, ...]:
    """What the image carries that upstream does not; nothing for one that the catalogue does not know."""
    row = known_image(image) if image else None
    return row.patches if row else ()


def known_image(image: str) -> ImageRow | None:
    return catalog.find_image(image)


class _Rates:
    """Rates with the band that was measured for such a distance from home."""

    def __init__(self, bands: DecodeBands) -> None:
        self.bands = bands

    def rate(self, step: DecodeStep, context: int, users: int | None = None, *, together: int = 1) -> Rate:
        plan = self.bands.plan
        band = self.bands.at(context, users or plan.goal.users)
        assert band is not None
        made = together / step.seconds
        if not plan.goal.draft:
            return _plain(made, band)
        accepted = plan.goal.acceptance
        if accepted is not None:
            return _plain(made * (1 + DRAFT_TOKENS * accepted), band)
        fewest, most = drafted_ends(band.low, band.high)
        return Rate(best=None, low=_round(made * fewest), high=_round(made * most))


def _plain(best: float, band: RateBand) -> Rate:
    return Rate(best=_round(best * band.centre), low=_round(best * band.low), high=_round(best * band.high))


def drafted_ends(low: float, high: float) -> tuple[float, float]:
    """Tokens a step with a draft whose acceptance is not known: its range and the band, as independent errors."""
    fewest, most = (1 + DRAFT_TOKENS * each for each in ACCEPTED)
    middle, reach = math.sqrt(fewest * most), math.log(most / fewest) / 2
    return middle * math.exp(-math.hypot(reach, math.log(low))), middle * math.exp(math.hypot(reach, math.log(high)))


def speed_case(plan: Plan, model: Model, box: Box, row: SpeedRow) -> SpeedCase | None:
    """None if a figure that the constants are shares of is not known."""
    first = box.gpus[0] if box.gpus else None
    parts = gpu_parts(plan, model, box)
    silicon = in_sequence(parts)
    work = rank_work(model, plan.parallel, plan.kv.dtype, sparse=row.kernels.sparse_attention)
    if ranks_of(plan.engine):
        return SpeedCase(plan, row, work, silicon, None) if silicon else None
    if first is not None and silicon is None:
        return None
    bandwidth, measured = host_bandwidth(box)
    layers = len({line.layer for line in model.weights if line.group == "routed_experts"})
    in_memory = sum(len(place.layers) for place in plan.expert_places if place.device == "host")
    if bandwidth is None:
        if in_memory or silicon is None:
            return None
        bandwidth = 1.0
    slot = min((_slot(gpu) or 0.0 for gpu in box.gpus), default=0.0) or None
    host = HostFigures(bandwidth, measured, slot, box.cpu.sockets or 1)
    on_host = in_memory if silicon else layers
    return SpeedCase(plan, row, work, silicon, Layered(work, silicon, host, layers, on_host, parts))


def gpu_parts(plan: Plan, model: Model, box: Box) -> tuple[GpuPart, ...]:
    """The GPUs that a step goes through, each with its share of what is read; one of them where all are of a kind."""
    if not box.gpus or not plan.layer_places:
        return tuple(GpuPart(gpu.name, 1.0, gpu_figures(gpu)) for gpu in box.gpus[:1])
    experts = model.architecture.experts
    woken = min(1.0, plan.goal.users * experts.active / experts.count) if experts else 1.0
    weight = {"experts": woken, "kv_cache": 0.5}
    read = [
        sum(weight.get(line.term, float(line.term in _STORED)) * line.bytes for line in plan.ledger
            if line.device == f"gpu{place}")
        for place in range(len(box.gpus))
    ]  # fmt: skip
    total = sum(read) or 1.0
    return tuple(GpuPart(gpu.name, part / total, gpu_figures(gpu)) for gpu, part in zip(box.gpus, read, strict=True))


def in_sequence(parts: Sequence[GpuPart]) -> GpuFigures | None:
    """Several GPUs, one after the other, as one that would take as long; None where one of them is not known."""
    known = [(part.share, part.figures) for part in parts if part.figures is not None]
    if not known or len(known) < len(parts):
        return None
    bandwidth, sms, flops = (
        1 / sum(share / figures[field] for share, figures in known) for field in range(len(GpuFigures._fields))
    )
    return GpuFigures(bandwidth, round(sms), flops)


def gpu_figures(gpu: Gpu) -> GpuFigures | None:
    row = catalog.find("gpus", gpu.row) if gpu.row else None
    if not isinstance(row, GpuRow):
        return _as_the_nearest(gpu)
    loaded = row.memory_bandwidth_loaded_gb_s or row.memory_bandwidth_gb_s
    if loaded.value is None or row.sm_count.value is None or row.bf16_tflops.value is None:
        return None
    return GpuFigures(loaded.value * 1e9, int(row.sm_count.value), row.bf16_tflops.value * 1e12)


def _as_the_nearest(gpu: Gpu) -> GpuFigures | None:
    """A card of which the bandwidth alone is known, which bounds decode: its processors as of the nearest row."""
    if (rate := gpu.memory_bandwidth_bytes_per_second.value) is None:
        return None
    known = [row for row in catalog.gpus() if row.vendor == "nvidia" and row.memory_bandwidth_gb_s.value]
    nearest = min(known, key=lambda row: abs(row.memory_bandwidth_gb_s.value * 1e9 - rate))  # type: ignore[operator]
    figures = gpu_figures(gpu.model_copy(update={"row": nearest.id}))
    return figures._replace(bandwidth=float(rate)) if figures else None


def _slot(gpu: Gpu) -> float | None:
    generation = gpu.pcie.generation_max.value or gpu.pcie.generation.value
    lanes = gpu.pcie.width_lanes.value or gpu.pcie.width_max_lanes.value
    return _LANE[int(generation)] * lanes if generation in _LANE and lanes else None


def _layer_worth(case: SpeedCase, context: int) -> float | None:
    if case.layered is None or case.layered.silicon is None or not case.layered.host_layers:
        return None
    return round(1 / case.step(context, more_layers=1).seconds - 1 / case.step(context).seconds, 3)


def _terms(which: str, step: DecodeStep, case: SpeedCase, context: int, row: SpeedRow) -> Iterable[SpeedTerm]:
    for name, seconds in sorted(step.terms.items(), key=lambda pair: -pair[1]):
        if seconds > 0:
            why = term_words(which, name, case.work, case.layered, row, case.plan, context)
            yield SpeedTerm.model_validate(
                {"step": which, "term": name, "milliseconds": round(1e3 * seconds, 3), "why": why}
            )


STEP_WORDS: dict[str, str] = {
    "model": "another model",
    "format": "another weight format",
    "gpu": "another GPU of the architecture",
    "version": "another engine version",
    "users": "a higher concurrency",
    "context": "a longer context",
    "architecture": "another GPU architecture",
    "machine": "another machine of the kind",
}


def _basis(chosen: ChosenRow, bands: DecodeBands) -> Basis:
    """What was measured on a machine is read for all of its kind, as what was published is."""
    if bands.sharper:
        return "measured"
    assert bands.factors is not None
    return "derived" if set(bands.factors.steps) - {"machine"} else chosen.row.basis


def _why(chosen: ChosenRow, load: SpeedQuery, bands: DecodeBands, plan: Plan) -> str:
    if bands.sharper:
        at_half = bands.at(max(1, plan.context_tokens // 2), plan.goal.users)
        assert at_half is not None
        reason = f"speeds/{chosen.row.id}, its terms times {1 / at_half.centre:.3f} by {bands.sharper.words}"
        ends = (bands.factors.low, bands.factors.high) if bands.factors else ()
        return (
            f"{reason}; other runs say otherwise, and the band holds both"
            if {at_half.low, at_half.high} & {*ends}
            else reason
        )
    errors = nearest_errors(chosen.row, load)
    assert errors is not None
    assert bands.factors is not None
    reason = f"median error {errors.median:.0%}, p90 {errors.ninth:.0%} over {errors.rows} measurements, {errors.how}"
    if steps := [step for step in bands.factors.steps if step != "architecture"]:  # whose error it starts from
        away = ", ".join(STEP_WORDS[step] for step in steps)
        reason += f"; widened by the measured error of {away} than it was fitted on"
    if bands.own:
        reason += f"; {bands.own.words}, which is no narrower"
    if plan.goal.draft:
        acceptance = plan.goal.acceptance
        reason += (
            f"; acceptance rate {acceptance:.0%}, as given" if acceptance is not None
            else f"; the acceptance rate is not known: {ACCEPTED[0]:.0%} to {ACCEPTED[1]:.0%} in published runs"
        )  # fmt: skip
    return f"speeds/{chosen.row.id}, {reason}"


def _round(value: float) -> float:
    return round(value, 1 if value < 1000 else 0)
