"""A claim + bundles that repeat it -> cell by cell what differs, and how many others came to the same."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from upright.benchmarking.comparison import place_words
from upright.benchmarking.rows import METRIC, rows
from upright.benchmarking.statistics import Ratio, unpaired
from upright.records.base import Part, Reason
from upright.records.benchmark import Benchmark
from upright.sharing.checks import Check, Looking, Verification
from upright.sharing.statement import Statement

COMPARED = ("output", "user", "ttft")
_FACTOR = 1.2
"""A difference that is sure and larger than this is one: below it lie drivers, clocks and cooling."""
_LOOK = Looking("repeated")


class ComparedCell(Part):
    """One figure of the claim beside the same figure of a repeat."""

    shape: str
    """The shape, in words."""
    metric: str
    """output, user or ttft."""
    unit: str
    """tok/s or s."""
    claimed: float
    """The claim's mean."""
    repeated: float
    """The repeat's mean."""
    factor: float
    """The repeat's over the claim's."""
    verdict: Literal["agrees", "differs"]
    """differs if that is sure, by their repeats, and more than a fifth."""
    reason: Reason
    """Why, in one line."""


@dataclass(frozen=True)
class Opened:
    """A bundle that was read and judged."""

    path: Path
    statement: Statement
    verification: Verification
    benchmarks: tuple[Benchmark, ...]


def compared(claim: Sequence[Benchmark], repeat: Sequence[Benchmark]) -> tuple[ComparedCell, ...]:
    """Every figure that both measured with the same shape."""
    ours = {place_words(row.shape): row for benchmark in claim for row in rows(benchmark.cells) if not row.marked}
    theirs = {place_words(row.shape): row for benchmark in repeat for row in rows(benchmark.cells) if not row.marked}
    return tuple(
        _cell(shape, metric, ours[shape].values(metric), theirs[shape].values(metric))
        for shape in ours
        if shape in theirs
        for metric in COMPARED
        if ours[shape].values(metric) and theirs[shape].values(metric)
    )


def repeated(claim: Opened, repeats: Sequence[Opened]) -> tuple[int, tuple[Check, ...]]:
    """How many independent others came to the same, and a line for each bundle."""
    signers, boxes = {claim.verification.signed_by}, {claim.statement.predicate.box.box_id}
    count, looks = 0, []
    for repeat in repeats:
        reason = next(_why_not(claim, repeat, signers, boxes), None)
        if reason is None:
            count += 1
            signers.add(repeat.verification.signed_by)
            boxes.add(repeat.statement.predicate.box.box_id)
            looks.append(_LOOK.holds(f"{repeat.path.name}: {repeat.verification.signed_by} came to the same"))
        else:
            looks.append(_LOOK.unknown(f"{repeat.path.name} does not count: {reason}"))
    return count, tuple(looks)


def _why_not(
    claim: Opened, repeat: Opened, signers: set[str | None], boxes: set[str | None]
) -> Iterator[str]:  # fmt: skip
    ours, theirs = claim.statement.predicate, repeat.statement.predicate
    if claim.verification.identity not in theirs.replays:
        yield "it does not link to this bundle"
    if repeat.verification.level not in ("consistent", "stale"):
        yield f"it is {repeat.verification.level}"
    if repeat.verification.signed_by is None:
        yield "it is unsigned"
    if repeat.verification.signed_by in signers:
        yield "its signer is counted already"
    if theirs.box.box_id is None or theirs.box.box_id in boxes:
        yield "its box is counted already"
    if (theirs.box.kind, theirs.box.gpus) != (ours.box.kind, ours.box.gpus):
        yield "it ran on another kind of box"
    if (theirs.model.name, theirs.model.revision) != (ours.model.name, ours.model.revision):
        yield "it is of another model"
    cells = compared(claim.benchmarks, repeat.benchmarks)
    if not cells:
        yield "it has no cell in common"
    differing = [cell for cell in cells if cell.verdict == "differs"]
    if differing:
        yield f"{differing[0].shape}: {differing[0].reason}"


def _cell(shape: str, metric: str, claimed: list[float], again: list[float]) -> ComparedCell:
    ratio = unpaired(claimed, again)
    verdict, reason = _verdict(ratio)
    return ComparedCell(
        shape=shape, metric=metric, unit=METRIC[metric].unit, claimed=sum(claimed) / len(claimed),
        repeated=sum(again) / len(again), factor=ratio.factor, verdict=verdict, reason=reason,
    )  # fmt: skip


def _verdict(ratio: Ratio) -> tuple[Literal["agrees", "differs"], str]:
    far = max(ratio.factor, 1 / ratio.factor) > _FACTOR
    if ratio.low is None or ratio.high is None:
        told = f"{ratio.factor:.2f} times, measured once"
        return ("differs" if far else "agrees"), told
    told = f"{ratio.factor:.2f} times ({ratio.low:.2f} to {ratio.high:.2f})"
    return ("differs" if far and ratio.sure else "agrees"), told
