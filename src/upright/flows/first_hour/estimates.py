"""Estimated seconds of a step; what earlier steps took corrects the later ones.

Proofs and benchmarks are given these seconds and keep to them; of the others they are what is assumed before anything
was measured on this box.
"""

from __future__ import annotations

from collections.abc import Iterable
from statistics import median

from upright.base.units import GB, format_duration, format_size
from upright.facts.records.first_hour import FieldAction, FieldOutcome, FieldStep

DOWNLOAD_BYTES_PER_SECOND = 0.5 * GB
"""4 Gbit/s, which a rented box usually has (assumed)."""
LOAD_BYTES_PER_SECOND = 1.0 * GB
"""One NVMe disk, or a page cache that is cold (assumed)."""
STARTING_SECONDS = 90.0
"""An engine's imports, graphs and first answer (assumed)."""
SECONDS: dict[FieldAction, float] = {"probe": 20.0, "kernels": 90.0}
"""Of steps that depend on no size (assumed)."""
SHARES: dict[FieldAction, float] = {"prove": 1 / 15, "bench": 1 / 20}
"""Of the whole time, for each proof and each benchmark: four and three minutes of an hour, and never more."""
_LEAST_SECONDS, _LONGEST_BUDGET = 10.0, 3600.0
END_SECONDS = 30.0
"""Kept for the last word: verdicts, the page and the bundle."""
_MOST_CORRECTION = 10.0
"""A step that took longer by more than this was held up by something else."""
BOUNDED: frozenset[FieldAction] = frozenset({"prove", "bench"})
"""They are cut off where their estimate ends, so nothing corrects them."""


def fetching(weights_bytes: int, rate: float) -> tuple[float, str]:
    seconds = weights_bytes / rate
    return seconds, f"{format_size(weights_bytes)} at {format_size(rate)}/s (assumed)"


def starting(weights_bytes: int) -> tuple[float, str]:
    loading = weights_bytes / LOAD_BYTES_PER_SECOND
    return (
        loading + STARTING_SECONDS,
        f"{format_size(weights_bytes)} at {format_size(LOAD_BYTES_PER_SECOND)}/s, and "
        f"{format_duration(STARTING_SECONDS)} (assumed)",
    )


def sharing(action: FieldAction, limit_seconds: float) -> tuple[float, str]:
    """Of a proof or a benchmark: it is cut off where this ends."""
    seconds = max(_LEAST_SECONDS, SHARES[action] * min(limit_seconds, _LONGEST_BUDGET))
    return seconds, "it is given so much and keeps to it"


def corrected(step: FieldStep, steps: Iterable[FieldStep], outcomes: Iterable[FieldOutcome]) -> float:
    """The estimate times what such steps took against theirs: a slow link is known after its first download."""
    if step.action in BOUNDED:
        return step.estimated_seconds
    by_name = {other.name: other for other in steps}
    ratios = [
        outcome.seconds / by_name[outcome.step].estimated_seconds
        for outcome in outcomes
        if outcome.ending == "done" and by_name[outcome.step].action == step.action
    ]
    if not ratios:
        return step.estimated_seconds
    return step.estimated_seconds * min(_MOST_CORRECTION, max(1 / _MOST_CORRECTION, median(ratios)))
