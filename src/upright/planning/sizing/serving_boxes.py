"""How one box serves, from a plan or from benchmarks, with everything that is known of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from upright.base.errors import UsageError
from upright.facts.records.benchmark import Benchmark
from upright.facts.records.box import Box
from upright.facts.records.model import Model
from upright.facts.records.plan import Plan
from upright.planning.sizing.answer import ServingBox, curve_of
from upright.planning.sizing.measured_service import measured_service
from upright.planning.sizing.planned_service import planned_service

CHUNK_TOKENS = 2048
"""Prompt tokens of a step, where a measured engine does not say."""


@dataclass(frozen=True)
class BoxEvidence:
    """Benchmarks of one box, and what else is known of it. None is not specified."""

    benchmarks: tuple[Benchmark, ...] = ()
    context_tokens: int | None = None
    streams: int | None = None
    pool_tokens: int | None = None
    box: Box | None = None

    def __or__(self, other: BoxEvidence) -> BoxEvidence:
        """With what another source adds; what is known already stays."""
        return BoxEvidence(
            (*self.benchmarks, *other.benchmarks),
            self.context_tokens or other.context_tokens,
            self.streams or other.streams,
            self.pool_tokens or other.pool_tokens,
            self.box or other.box,
        )


def planned_serving_box(plan: Plan, artifact: Model, box: Box, at_once: int, why: str) -> ServingBox:
    """By arithmetic, planned for so many requests at once."""
    planned = planned_service(plan, artifact, box)
    more = (f"each box as upright plan --users {at_once} has it, {why}",) if at_once > 1 else ()
    curve = curve_of(
        planned.service,
        basis="derived",
        why=planned.why,
        low_factor=planned.low_factor,
        high_factor=planned.high_factor,
        notes=(*planned.notes, *more),
    )
    return ServingBox(
        planned.service,
        curve,
        plan.context_tokens,
        fast=planned.fast,
        slow=planned.slow,
        model=plan.model,
        box_name=plan.box,
        box=box,
        made_from=plan.made_from,
        at_once=at_once,
    )


def measured_serving_box(evidence: BoxEvidence) -> ServingBox:
    """By measurement."""
    models: Sequence[str] = sorted({benchmark.model for benchmark in evidence.benchmarks})
    if len(models) > 1:
        raise UsageError(
            f"the evidence is of several models: {', '.join(models)}", hint="one curve is of one model on one box"
        )
    measured = measured_service(
        [cell for benchmark in evidence.benchmarks for cell in benchmark.cells],
        pool_tokens=evidence.pool_tokens,
        streams=evidence.streams,
        step_prompt_tokens=CHUNK_TOKENS,
    )
    return ServingBox(
        measured.service,
        curve_of(measured.service, basis="measured", why=measured.why, notes=measured.notes),
        evidence.context_tokens or measured.service.pool_tokens,
        model=models[0],
        box_name=evidence.box.name if evidence.box else None,
        box=evidence.box,
        made_from=tuple(benchmark.reference for benchmark in evidence.benchmarks),
    )
