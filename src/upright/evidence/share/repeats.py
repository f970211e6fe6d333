"""Compares a claim cell by cell with bundles that repeat it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from upright.evidence.share.checks import Check, CheckMaker, Verification
from upright.evidence.share.statement import Statement
from upright.facts.records.base import Part, Reason
from upright.facts.records.benchmark import Benchmark
from upright.proof.benchmark.comparison import shape_words
from upright.proof.benchmark.rows import METRIC, rows
from upright.proof.benchmark.statistics import Ratio, is_informative, pooled, repeats_to_tell

COMPARED = ("output", "user", "ttft")
_FACTOR = 1.2
"""A difference that is sure and larger than this is one: below it lie drivers, clocks and cooling."""
_LOOK = CheckMaker("repeated")
Clocks = tuple[tuple[int, int], ...]
AgreementVerdict = Literal["agrees", "differs", "unclear"]


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
    verdict: AgreementVerdict
    """differs if that is sure, by their repeats, and more than a fifth; unclear if it is more, and not sure."""
    reason: Reason
    """Why, in one line."""


@dataclass(frozen=True)
class OpenedBundle:
    """A bundle that was read and judged."""

    path: Path
    statement: Statement
    verification: Verification
    benchmarks: tuple[Benchmark, ...]


def compared_cells(claim: Sequence[Benchmark], repeat: Sequence[Benchmark]) -> tuple[ComparedCell, ...]:
    """Every figure that both measured with the same shape."""
    ours = {shape_words(row.shape): row for benchmark in claim for row in rows(benchmark.cells) if not row.marked}
    theirs = {shape_words(row.shape): row for benchmark in repeat for row in rows(benchmark.cells) if not row.marked}
    return tuple(
        _cell(shape, metric, ours[shape].values(metric), theirs[shape].values(metric))
        for shape in ours
        if shape in theirs
        for metric in COMPARED
        if ours[shape].values(metric) and theirs[shape].values(metric)
    )


@dataclass(frozen=True)
class Repetition:
    """Who came to the same, and a line for each bundle."""

    known: int
    """Signers among the keys that the reader named."""
    unverified: int
    """Others: keys cost nothing, so that these may all be one person."""
    looks: tuple[Check, ...]


@dataclass
class _Counted:
    """What a further repeat must differ from."""

    signers: set[str | None]
    boxes: set[str | None]
    clocks: set[Clocks]

    def add(self, opened: OpenedBundle) -> None:
        self.signers.add(opened.verification.signed_by)
        self.boxes.add(opened.statement.predicate.box.box_id)
        self.clocks |= request_clocks(opened)


def count_repeats(
    claim: OpenedBundle, repeats: Sequence[OpenedBundle], trusted: frozenset[str] = frozenset()
) -> Repetition:
    """How many others came to the same: those whose keys the reader named, and those whom nobody knows."""
    counted, known, unverified, looks = _Counted(set(), set(), set()), 0, 0, []
    counted.add(claim)
    for repeat in repeats:
        signer = repeat.verification.signed_by
        reason = next(_why_not(claim, repeat, counted), None)
        if reason is not None:
            looks.append(_LOOK.unknown(f"{repeat.path.name} does not count: {reason}"))
            continue
        counted.add(repeat)
        if signer in trusted:
            known += 1
            looks.append(_LOOK.holds(f"{repeat.path.name}: {signer} came to the same"))
        else:
            unverified += 1
            looks.append(_LOOK.unknown(f"{repeat.path.name}: {signer} came to the same, and is no key that you named"))
    return Repetition(known, unverified, tuple(looks))


def request_clocks(opened: OpenedBundle) -> set[Clocks]:
    """How long each request of a cell took, in microseconds: no two runs have the same."""
    return {
        tuple(zip(_spans(kept.first_us, kept.sent_us), _spans(kept.ended_us, kept.sent_us), strict=True))
        for benchmark in opened.benchmarks
        for cell in benchmark.cells
        if (kept := cell.samples) is not None and kept.sent_us
    }


def _spans(ends: Sequence[int], begins: Sequence[int]) -> list[int]:
    return [end - begin for end, begin in zip(ends, begins, strict=True)]


def _why_not(claim: OpenedBundle, repeat: OpenedBundle, counted: _Counted) -> Iterator[str]:
    ours, theirs = claim.statement.predicate, repeat.statement.predicate
    if claim.verification.identity not in theirs.replays:
        yield "it does not link to this bundle"
    if repeat.verification.level not in ("consistent", "stale"):
        yield f"it is {repeat.verification.level}"
    if repeat.verification.signed_by is None:
        yield "it is unsigned"
    if repeat.verification.signed_by in counted.signers:
        yield "its signer is counted already"
    if theirs.box.box_id is None or theirs.box.box_id in counted.boxes:
        yield "its box is counted already"
    if (theirs.box.kind, theirs.box.gpus) != (ours.box.kind, ours.box.gpus):
        yield "it ran on another kind of box"
    if (theirs.model.name, theirs.model.revision) != (ours.model.name, ours.model.revision):
        yield "it is of another model"
    if (theirs.engine.name, theirs.engine.version) != (ours.engine.name, ours.engine.version):
        yield "it is of another engine"
    if not counted.clocks.isdisjoint(request_clocks(repeat)):
        yield "its samples are a copy"
    cells = compared_cells(claim.benchmarks, repeat.benchmarks)
    if not cells:
        yield "it has no cell in common"
    unlike = [cell for cell in cells if cell.verdict != "agrees"]
    if unlike:
        yield f"{unlike[0].shape}, {unlike[0].metric}: {unlike[0].reason}"


def _cell(shape: str, metric: str, claimed: list[float], again: list[float]) -> ComparedCell:
    there, here = sum(claimed) / len(claimed), sum(again) / len(again)
    verdict, reason = _verdict(ratio := _centred(pooled(claimed, again), here / there), claimed, again)
    return ComparedCell(
        shape=shape, metric=metric, unit=METRIC[metric].unit, claimed=there, repeated=here, factor=ratio.factor,
        verdict=verdict, reason=reason,
    )  # fmt: skip


def _centred(ratio: Ratio, factor: float) -> Ratio:
    """Its interval, as wide, around the ratio of the means that are shown: its own is the geometric means'."""
    if ratio.low is None or ratio.high is None:
        return replace(ratio, factor=factor)
    moved = factor / ratio.factor
    return replace(ratio, factor=factor, low=ratio.low * moved, high=ratio.high * moved)


def _verdict(ratio: Ratio, claimed: Sequence[float], again: Sequence[float]) -> tuple[AgreementVerdict, str]:
    far, told = max(ratio.factor, 1 / ratio.factor) > _FACTOR, f"{ratio.factor:.2f} times"
    if ratio.low is None or ratio.high is None:
        return ("differs" if far else "agrees"), f"{told}, measured once"
    if is_informative(ratio.low, ratio.high):
        told += f" ({ratio.low:.2f} to {ratio.high:.2f})"
    if far and not ratio.sure:
        enough = repeats_to_tell(claimed, again, max(ratio.factor, 1 / ratio.factor))
        return "unclear", f"{told}: {f'{enough} repeats of each' if enough else 'steadier repeats'} would tell"
    return ("differs" if far else "agrees"), told
