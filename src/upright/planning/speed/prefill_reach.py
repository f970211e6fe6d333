"""What a prompt is priced with: by prompts of the like, or else by what siblings of the GPU reach.

The work of a prompt is known. A row of prefills says what share of a throughput kernels of a kind reach on GPUs of a
kind, over published prompts, and how far that is off for a source that was left out.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from upright.facts import catalog
from upright.facts.catalog import versions
from upright.facts.catalog.rows.speed import Errors, PrefillRow, SpeedRow
from upright.facts.records.base import Basis
from upright.facts.records.plan import Speed
from upright.planning.speed.decode import Amount, DecodeStep, decode_step
from upright.planning.speed.speed_band import WIDEST, RateBand, SpeedQuery, rate_band
from upright.planning.speed.work import GpuFigures, Work

SIBLINGS = "from compute and siblings"


class PromptPrice(NamedTuple):
    """The constants that a prompt is priced with, and how far that is off."""

    speeds: SpeedRow
    band: RateBand
    basis: Basis
    why: str

    def step(self, amounts: Iterable[Amount]) -> DecodeStep:
        return decode_step(amounts, self.speeds.constants)


def prompt_price(
    speeds: SpeedRow, load: SpeedQuery, work: Work, silicon: GpuFigures | None, capability: str | None
) -> PromptPrice | None:
    """None where neither prompts of the like nor siblings tell."""
    band = rate_band(speeds, load, "prompt")
    if band is not None and band.known and speeds.prompt_errors is not None:
        basis: Basis = "derived" if band.steps else speeds.basis
        return PromptPrice(speeds, band, basis, f"speeds/{speeds.id}, {_errors_words(speeds.prompt_errors)}")
    row = prefill_row(speeds.engine, capability)
    if row is None or silicon is None or capability is None:
        return None
    share = row.reached * reference(row, silicon, capability)
    share *= (row.latent_reached or 1.0) if work.latent_layers else 1.0
    share *= (row.fp4_reached or 1.0) if multiplies_fp4(work, capability) else 1.0
    reached = {"compute_efficiency": share, "attention_efficiency": share * row.attention_reached}
    constants = speeds.constants.model_copy(update={**reached, "ubatch_layer_us": row.layer_us})
    priced = speeds.model_copy(update={"constants": constants})
    why = f"{SIBLINGS}: prefills/{row.id}, {_errors_words(row.errors)}"
    return PromptPrice(priced, RateBand(row.errors.low, row.errors.high, ()), "derived", why)


def multiplies_fp4(work: Work, capability: str) -> bool:
    return work.fp4_experts and versions.in_range(capability, ">=10")


def prefill_row(engine: str, capability: str | None) -> PrefillRow | None:
    """None too where sources that were left out lie further off than people can plan with."""
    for row in catalog.rows("prefills").values():
        assert isinstance(row, PrefillRow)
        if engine in row.engines and capability and versions.in_range(capability, row.capability):
            return row if row.errors.high <= WIDEST * row.errors.low else None
    return None


def from_siblings(speed: Speed) -> bool:
    """Whether no prompt of the like stands behind its prefill."""
    return (speed.prompt_why or "").startswith(SIBLINGS)


def reference(row: PrefillRow, silicon: GpuFigures, capability: str) -> float:
    """The throughput that a row's share is of, over the dense bf16 throughput that amounts of work are seconds of."""
    for clocked, tflops in row.multiprocessor_tflops.items():
        if versions.in_range(capability, clocked):
            return silicon.multiprocessors * tflops * 1e12 / silicon.bf16_flops
    return 1.0


def _errors_words(errors: Errors) -> str:
    return f"median error {errors.median:.0%}, p90 {errors.ninth:.0%} over {errors.rows} prompts, {errors.how}"
