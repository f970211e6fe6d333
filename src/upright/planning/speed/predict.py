"""Plan + Model + Box -> Speed: every term of a step, a band, and where both come from."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from upright import catalog
from upright.catalog.rows.engine import ImageRow
from upright.catalog.rows.hardware import GpuRow
from upright.catalog.rows.speed import Errors, SpeedRow
from upright.planning.offering import ranks_of
from upright.planning.speed.decode import Amount, Step, step_amounts, total
from upright.planning.speed.layered import Host, Layered, layered_prompt, layered_step
from upright.planning.speed.prompt import CHUNK_TOKENS, prompt_amounts
from upright.planning.speed.rows import Chosen, choose, wires
from upright.planning.speed.words import term_words
from upright.planning.speed.work import Silicon, Work, rank_work
from upright.records.base import Basis
from upright.records.box import Box, Gpu
from upright.records.model import Model
from upright.records.plan import Plan, Rate, Speed, SpeedTerm

GUESSES = 3
# What drafts of Kimi K2.6 were accepted at in 112 published cells; only the ends of a band, never a figure.
ACCEPTED = (0.21, 0.66)
FEW_ROWS = 10
# Bytes a second and lane, one way.
_LANE = {3: 0.985e9, 4: 1.969e9, 5: 3.938e9, 6: 7.563e9}


@dataclass(frozen=True)
class Case:
    """What the amounts are counted on: ranks, or layers on devices."""

    plan: Plan
    row: SpeedRow
    work: Work
    silicon: Silicon | None
    layered: Layered | None

    def step(self, context: float, *, more_layers: int = 0) -> Step:
        spread, users = self.row.constants.expert_spread, self.plan.goal.users
        return total(self.amounts(users, context, spread, more_layers=more_layers), self.row.constants)

    def amounts(self, batch: int, context: float, spread: float, *, more_layers: int = 0) -> Iterable[Amount]:
        if self.layered is not None:
            placed = self.layered
            moved = Layered(
                placed.work, placed.silicon, placed.host, placed.expert_layers, placed.host_layers - more_layers
            )
            return layered_step(moved, batch=batch, context=context, spread=spread)
        assert self.silicon is not None
        guesses = GUESSES if self.plan.goal.draft else 0
        return step_amounts(
            self.work, self.silicon, self.row.kernels, batch=batch, context=context, guesses=guesses, spread=spread
        )

    def prompt(self, tokens: int) -> Step | None:
        found = self.prompt_amounts(tokens)
        return None if found is None else total(found, self.row.constants)

    def prompt_amounts(self, tokens: int) -> Iterable[Amount] | None:
        if self.layered is not None:
            return layered_prompt(self.layered, self.row.kernels, tokens, self.plan.ubatch_tokens or 512)
        assert self.silicon is not None
        return prompt_amounts(self.work, self.silicon, tokens, self.plan.ubatch_tokens or CHUNK_TOKENS)


def speed(plan: Plan, model: Model, box: Box) -> Speed | None:
    """None if the catalogue has no constants for the engine, or not the figures of the silicon."""
    ranks = plan.parallel.tensor * plan.parallel.pipeline
    chosen = constants(box, plan.engine, plan.engine_version, ranks, plan.goal.image)
    if chosen is None or (case := case_of(plan, model, box, chosen.row)) is None:
        return None
    half = max(1, plan.context_tokens // 2)
    step, prompt = case.step(half), case.prompt(half)
    band = _Band(chosen)
    return Speed(
        context_tokens=half,
        decode=band.rate(step, plan),
        empty=band.rate(case.step(0), plan),
        full=band.rate(case.step(plan.context_tokens), plan),
        together=band.rate(step, plan, users=plan.goal.users),
        prompt=band.plain(half / prompt.seconds) if prompt else None,
        layer_worth=_layer_worth(case, half),
        terms=(*_terms("decode", step, case, half), *(_terms("prompt", prompt, case, half) if prompt else ())),
        row=chosen.row.id,
        basis=_basis(chosen),
        why=_why(chosen, plan),
    )


def constants(box: Box, engine: str, version: str | None, ranks: int, image: str | None) -> Chosen | None:
    """The row for these GPUs and the wires between them."""
    capability = next((gpu.compute_capability for gpu in box.gpus if gpu.compute_capability), None)
    return choose(engine, version, capability, wires(box, ranks), image_patches(image))


def image_patches(image: str | None) -> tuple[str, ...]:
    """What the image carries that upstream does not; nothing for one that the catalogue does not know."""
    row = known_image(image) if image else None
    return row.patches if row else ()


def known_image(image: str) -> ImageRow | None:
    """By the row's name, the whole reference, or its tag."""
    names = ((row, (row.id, row.reference, row.reference.rpartition(":")[2])) for row in catalog.images())
    return next((row for row, known in names if image in known), None)


class _Band:
    """How far measurements were from predictions, as factors."""

    def __init__(self, chosen: Chosen) -> None:
        found = chosen.errors
        self.low, self.high = (0.5, 1.5) if found is None else band_of(found)

    def plain(self, best: float) -> Rate:
        return Rate(best=_round(best), low=_round(best * self.low), high=_round(best * self.high))

    def rate(self, step: Step, plan: Plan, users: int = 1) -> Rate:
        made = users / step.seconds
        if not plan.goal.draft:
            return self.plain(made)
        accepted = plan.goal.acceptance
        if accepted is not None:
            return self.plain(made * (1 + GUESSES * accepted))
        low, high = (made * (1 + GUESSES * each) for each in ACCEPTED)
        return Rate(best=None, low=_round(low * self.low), high=_round(high * self.high))


def band_of(errors: Errors) -> tuple[float, float]:
    """Few rows tell no direction: then the band reaches as far down as up."""
    low, high = min(1.0, errors.low), max(1.0, errors.high)
    return (min(low, 1 / high), max(high, 1 / low)) if errors.rows < FEW_ROWS else (low, high)


def case_of(plan: Plan, model: Model, box: Box, row: SpeedRow) -> Case | None:
    """None if a figure that the constants are shares of is not known."""
    first = box.gpus[0] if box.gpus else None
    silicon = silicon_of(first) if first else None
    work = rank_work(model, plan.parallel, plan.kv.dtype)
    if ranks_of(plan.engine):
        return Case(plan, row, work, silicon, None) if silicon else None
    if first is not None and silicon is None:
        return None
    bandwidth, measured = _host_bandwidth(box)
    layers = len({line.layer for line in model.weights if line.group == "routed_experts"})
    in_memory = sum(len(place.layers) for place in plan.expert_places if place.device == "host")
    if bandwidth is None:
        if in_memory or silicon is None:
            return None
        bandwidth = 1.0
    host = Host(bandwidth, measured, _slot(first) if first else None)
    return Case(plan, row, work, silicon, Layered(work, silicon, host, layers, in_memory if silicon else layers))


def silicon_of(gpu: Gpu) -> Silicon | None:
    row = catalog.find("gpus", gpu.row) if gpu.row else None
    if not isinstance(row, GpuRow):
        return None
    loaded = row.memory_bandwidth_loaded_gb_s or row.memory_bandwidth_gb_s
    if loaded.value is None or row.sm_count.value is None or row.bf16_tflops.value is None:
        return None
    return Silicon(loaded.value * 1e9, int(row.sm_count.value), row.bf16_tflops.value * 1e12)


def _host_bandwidth(box: Box) -> tuple[float | None, bool]:
    if box.memory_bandwidth_measured_bytes_per_second.value is not None:
        return float(box.memory_bandwidth_measured_bytes_per_second.value), True
    value = box.memory_bandwidth_bytes_per_second.value
    return (None if value is None else float(value)), False


def _slot(gpu: Gpu) -> float | None:
    generation = gpu.pcie.generation_max.value or gpu.pcie.generation.value
    lanes = gpu.pcie.width_lanes.value or gpu.pcie.width_max_lanes.value
    return _LANE[int(generation)] * lanes if generation in _LANE and lanes else None


def _layer_worth(case: Case, context: int) -> float | None:
    if case.layered is None or case.layered.silicon is None or not case.layered.host_layers:
        return None
    return round(1 / case.step(context, more_layers=1).seconds - 1 / case.step(context).seconds, 3)


def _terms(which: str, step: Step, case: Case, context: int) -> Iterable[SpeedTerm]:
    for name, seconds in sorted(step.terms.items(), key=lambda pair: -pair[1]):
        if seconds > 0:
            why = term_words(which, name, case.work, case.layered, case.row, case.plan, context)
            yield SpeedTerm.model_validate(
                {"step": which, "term": name, "milliseconds": round(1e3 * seconds, 3), "why": why}
            )


def _basis(chosen: Chosen) -> Basis:
    return chosen.row.basis if chosen.at_home else "derived"


def _why(chosen: Chosen, plan: Plan) -> str:
    errors = chosen.errors
    if errors is None:
        words = "no run was held against it: half to one and a half times"
    else:
        words = (
            f"off by {errors.median:.0%} in the middle, by up to {errors.ninth:.0%} in nine of ten of {errors.rows} "
            f"rows: {errors.how}"
        )
    if plan.goal.draft:
        said = plan.goal.acceptance
        words += (
            f"; {said:.0%} of the guesses accepted, as you say" if said is not None
            else f"; acceptance is not known: from {ACCEPTED[0]:.0%} to {ACCEPTED[1]:.0%}, as published cells were"
        )  # fmt: skip
    return f"speeds/{chosen.row.id}, {words}"


def _round(value: float) -> float:
    return round(value, 1 if value < 1000 else 0)
