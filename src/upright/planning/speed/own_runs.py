"""Published runs of a plan's very setting: same GPUs, engine, build, users and cache -> a sharper band than the row's.

The sum of terms says how a step grows with the context; such runs say how far the sum is off here. Between them that is
interpolated, and where they differ the band holds all of them. Around that lies as much as a run that was left out
was measured to lie away from the others of its setting.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from upright.facts import catalog
from upright.facts.catalog.model_records import row_of
from upright.facts.catalog.published_rates import PublishedRate, gpu_edition, publisher
from upright.facts.catalog.rows.speed import TransferRow
from upright.facts.records.box import Box
from upright.facts.records.model import Model
from upright.facts.records.plan import Plan
from upright.planning.speed.assumed_bandwidth import host_bandwidth, processor_row
from upright.planning.speed.sibling_runs import differences, quant_of, runs_of
from upright.planning.speed.speed_band import RateBand

NEAR = 1.5
"""Octaves of context within which a run tells of another whatever the terms are wrong about."""
OF_ALL = "run-decode"
"""The row of transfers of all engines together."""
_SHORT_TOKENS = 2_048
_AS_FAST = 0.02
_PLAIN = ("bf16", "f16")
"""Of a cache of which its author says nothing."""


class RunPoint(NamedTuple):
    """A run, and what it is of the sum of terms at its own context."""

    id: str
    build: str
    context_tokens: int
    off: float
    """Logarithm of measured over predicted."""

    @property
    def octave(self) -> float:
        return octave(self.context_tokens)


class OwnRuns(NamedTuple):
    """What runs of the very setting say of a plan."""

    points: tuple[RunPoint, ...]
    row: TransferRow
    machine: TransferRow | None
    """How far another machine of the kind is off, where one publisher alone tells of the setting."""

    def band(self, context_tokens: float, otherwise: RateBand | None) -> RateBand | None:
        """Or *otherwise*, where that holds these runs and is narrower.

        Far from all of them, too, where it does not hold them: what the terms are wrong about is not known then. Near
        them, where it does not hold those of one publisher alone, both, if that is still an answer.
        """
        place = octave(context_tokens)
        low, high = (math.exp(end) for end in spanned(self.points, place))
        held = otherwise is not None and otherwise.known and otherwise.low <= low and high <= otherwise.high
        far = min(abs(point.octave - place) for point in self.points) > NEAR
        if far and not held:
            return otherwise
        centre, apart = math.sqrt(low * high), 1 + (self.machine.errors.median if self.machine else 0.0)
        own = RateBand(
            min(low * self.row.errors.low, centre / apart), max(high * self.row.errors.high, centre * apart), (), centre
        )
        if otherwise is None or not otherwise.known:
            return own if own.known else otherwise
        if self.machine and not held:
            both = RateBand(min(own.low, otherwise.low), max(own.high, otherwise.high), ())
            return both._replace(centre=math.sqrt(both.low * both.high)) if both.known else own
        narrower = otherwise.high / otherwise.low < own.high / own.low
        return otherwise if (narrower and held) or not own.known else own

    @property
    def words(self) -> str:
        ids = ", ".join(sorted({point.id for point in self.points}, key=_number)[:3])
        more = f" and {len(self.points) - 3} more" if len(self.points) > 3 else ""
        errors, apart = self.row.errors, self.apart
        kind = "with experts in system RAM " if self.row.id.endswith("-ram") else ""
        told = f"{len(self.points)} published run{'s' * (len(self.points) > 1)} of this setting ({ids}{more}): runs of "
        told += f"such settings {kind}that were left out lie within {errors.ninth:.0%} of the others nine times in ten"
        if self.machine:
            told += f"; one publisher tells of it, and two are {self.machine.errors.median:.0%} apart in the middle"
        return f"{told}; these differ by {apart:.0%}, and the band holds them all" if apart > _AS_FAST else told

    @property
    def apart(self) -> float:
        """At the context where they differ most."""
        spans = (spanned(self.points, point.octave) for point in self.points)
        return math.expm1(max(high - low for low, high in spans))


def octave(context_tokens: float) -> float:
    return math.log2(context_tokens + _SHORT_TOKENS)


def spanned(points: Sequence[RunPoint], place: float) -> tuple[float, float]:
    """Least and most that any build's runs say of a context: interpolated between them, as the nearest outside."""
    builds: dict[str, dict[float, list[float]]] = {}
    for point in points:
        builds.setdefault(point.build, {}).setdefault(point.octave, []).append(point.off)
    lines = [sorted(places.items()) for places in builds.values()]
    return min(_between(line, place, min) for line in lines), max(_between(line, place, max) for line in lines)


def _between(line: Sequence[tuple[float, list[float]]], place: float, end: Callable[[Iterable[float]], float]) -> float:
    after = next((index for index, (there, _) in enumerate(line) if there >= place), len(line))
    if after in (0, len(line)):
        return end(line[min(after, len(line) - 1)][1])
    (start, ones), (stop, others) = line[after - 1], line[after]
    share = (place - start) / (stop - start)
    return (1 - share) * end(ones) + share * end(others)


def own_runs(
    plan: Plan, model: Model, box: Box, one_shot: bool, predicted: Callable[[PublishedRate], float | None]
) -> OwnRuns | None:
    """*predicted* is the sum for a run, in tokens a second of all its requests; None where it cannot be told."""
    spread = _spread(plan, box)
    if spread is None or plan.goal.draft or plan.parallel.nodes > 1:
        return None
    points, publishers = [], set[str]()
    divided = bool(box.gpus) and any(place.device == "host" for place in plan.expert_places)
    for seen in _of_setting(plan, model, box, one_shot):
        if divided and seen.gpu_expert_layers is None:
            continue  # of any placement it would say the same
        if expected := predicted(seen):
            off = math.log(seen.tokens_per_second / expected)
            points.append(RunPoint(seen.id, seen.build, seen.context_tokens, off))
            publishers.add(publisher(seen.source))
    machine = catalog.find("transfers", "machine-decode") if len(publishers) == 1 else None
    return OwnRuns(tuple(points), spread, machine if isinstance(machine, TransferRow) else None) if points else None


def _of_setting(plan: Plan, model: Model, box: Box, one_shot: bool) -> Iterator[PublishedRate]:
    row = row_of(model)
    if row is None:
        return
    found = [seen for seen in runs_of(row, box) if not (seen.speculation or seen.served)]
    shared = {seen.build for seen in found if seen.concurrency * seen.context_tokens > plan.kv.high_tokens}
    for seen in found:
        if seen.build in shared and seen.concurrency > 1 and seen.context_tokens:
            continue  # more than the pool holds: a benchmark that sends all users one prompt
        if not (seen.version or seen.cpu):
            continue  # neither of the engine nor of the machine is told which it was
        if any(differences(seen, plan, model)) or not _same_build(seen, model) or not _same_box(seen, plan, box):
            continue
        if not seen.kv_dtype and plan.kv.dtype not in _PLAIN:
            continue
        if plan.parallel.tensor == 1 or seen.one_shot is one_shot:
            yield seen


def _same_build(seen: PublishedRate, model: Model) -> bool:
    """The type of its weights, or the repository; what names neither is as its maker published it."""
    theirs, ours = quant_of(seen.artifact), quant_of(f"{model.source} {model.quantisation or ''}")
    if theirs and ours:
        return theirs == ours
    named = seen.artifact.partition(" ")[0].lower()
    return named == model.source.lower() or (named in ("", "native") and model.source == _published_by_its_maker(model))


def _published_by_its_maker(model: Model) -> str | None:
    row = row_of(model)
    return next((artifact.repository for artifact in row.artifacts), None) if row else None


def _same_box(seen: PublishedRate, plan: Plan, box: Box) -> bool:
    """The edition of its GPUs, where it is told; where the processor has a part it is the same one, or as fast.

    Of two sockets few runs tell to which they were bound, which decides.
    """
    if box.gpus and gpu_edition(seen.gpu) not in (None, box.gpus[0].row):
        return False
    if box.gpus and not any(place.device == "host" for place in plan.expert_places):
        return not seen.gpu_expert_layers
    if (box.cpu.sockets or 1) > 1:
        return False
    bandwidth = host_bandwidth(box)[0]
    if seen.host_gb_s and bandwidth and abs(math.log(seen.host_gb_s * 1e9 / bandwidth)) < _AS_FAST:
        return True
    ours, theirs = processor_row(box.cpu.name), processor_row(seen.cpu)
    return ours is not None and ours is theirs and not seen.cpu.startswith("2x")


def _spread(plan: Plan, box: Box) -> TransferRow | None:
    """As it was measured with experts in system RAM, or with this engine, else with all of them."""
    on_host = not box.gpus or any(place.device == "host" for place in plan.expert_places)
    for name in (level(plan.engine, on_host), OF_ALL):
        if isinstance(row := catalog.find("transfers", name), TransferRow):
            return row
    return None


def level(engine: str, on_host: bool) -> str:
    """The row of transfers that says how far such runs lie apart."""
    return f"{OF_ALL}-{'ram' if on_host else engine}"


def left_out(points: Sequence[RunPoint]) -> Iterator[float]:
    """How far outside of what the others span each run lies: of all others, and of those at other contexts alone."""
    for index, point in enumerate(points):
        others = [*points[:index], *points[index + 1 :]]
        far = [other for other in others if abs(other.octave - point.octave) > NEAR]
        for known in (others, far):
            if known:
                low, high = spanned(known, point.octave)
                yield point.off - min(max(point.off, low), high)


def within(misses: Sequence[tuple[float, str]], share: float) -> float:
    """Such a share of the misses is no farther, each setting weighing the same."""
    runs, reached = Counter(setting for _, setting in misses), 0.0
    for off, setting in sorted((abs(off), setting) for off, setting in misses):
        reached += 1 / runs[setting] / len(runs)
        if reached >= share:
            return off
    return max(abs(off) for off, _ in misses)


def _number(name: str) -> tuple[int, str]:
    return len(name), name
