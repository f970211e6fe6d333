"""Measures shapes one cell at a time; each cell is on the disk before the next begins.

Repeats go round: every shape once, then every shape again, so that what drifts touches all of them. A run that was cut
off is resumed by the same command; one that came to its end is measured anew.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean
from typing import Any

from upright.base import bounds, units
from upright.base.errors import UsageError
from upright.facts.records.base import canonical
from upright.facts.records.benchmark import OUT_OF_TIME, Benchmark, Cell, Finished, SelfTest, Shape, Skipped, Started
from upright.facts.records.loading import load
from upright.facts.records.trace import AgentTrace
from upright.facts.store import DeploymentDir
from upright.proof.benchmark.cell import (
    BenchSubject,
    CellPlace,
    RequestSlo,
    SubjectFailedError,
    measure,
    open_loop_shape,
    warm_up,
)
from upright.proof.benchmark.load import StreamTally
from upright.proof.benchmark.workload import Workload, shape_tokens
from upright.proof.benchmark.workload import workload as named

_LEAST_BOX_SECONDS = 2.0
"""A cell is measured for at least so long, whatever its warm-up took, or it is not begun."""
_LONGER, _LEAST_LONGER = 2.0, 1.5
"""A cell whose time box cut requests is measured again with so many times the time; with less it is left as it is."""
_LAST_PAGE_SECONDS = 1.0
"""For what is read of an engine when a load has ended."""
_WARM_SHARE = 0.2
"""Of a cell's time, for each of the two steps of its warm-up at most."""


@dataclass(frozen=True)
class SweepRequest:
    """What the person asked for."""

    workload: Workload
    shapes: tuple[Shape, ...]
    repeats: int = 1
    seed: int = 0
    budget_seconds: float | None = None
    promise: RequestSlo | None = None
    patience_seconds: float = 300.0
    fresh: bool = False
    """Do not go on with a run that was cut off."""
    question: str | None = None
    """What every prompt ends with, so that answers are such as the model gives; None: words that mean nothing."""
    around: bool = False
    """Where a turn costs a restart: the first subject before and after all others, each of them in one turn."""
    trace: AgentTrace | None = None
    """What agents did, to be replayed; None: requests by shape alone."""
    expected_seconds: Mapping[Shape, float] = field(default_factory=dict)
    """What a shape takes, where that is known: the time is shared out by it, and else alike."""

    def share(self, shape: Shape) -> float:
        """Of the time, over that of a shape on average."""
        if not self.expected_seconds:
            return 1.0
        return self.expected_seconds[shape] / fmean(self.expected_seconds[known] for known in self.shapes)


@dataclass
class SweepWatch:
    """Who is told of the progress; all of it may be left out."""

    on_cell: Callable[[BenchSubject, Shape, int, int, int], None] = lambda subject, shape, repeat, done, of: None
    on_tick: Callable[[StreamTally, int], None] = lambda tally, in_flight: None
    on_done: Callable[[Cell, bool], None] = lambda cell, remembered: None
    tell: Callable[[str], None] = lambda words: None


@dataclass
class SweepRun:
    """A run as it goes: what is on the disk already, and what time is left."""

    asked: SweepRequest
    directory: DeploymentDir
    run: str
    began_at: str
    watch: SweepWatch
    known: dict[tuple[str, str, int], Cell] = field(default_factory=dict)
    taken_up: str = ""
    """When a run that was cut off went on; empty for a new one."""
    cells: list[Cell] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    began: float = field(default_factory=time.monotonic)
    warm: set[tuple[str, int, int]] = field(default_factory=set)
    running: str | None = None
    """Which subject was made to run last, where only one can."""
    fallen: dict[str, str] = field(default_factory=dict)
    """Subjects that could not be measured, and why; the others went on."""
    needed: dict[tuple[str, Shape], float] = field(default_factory=dict)
    """Seconds that a cell turned out to need, where its first box was too small."""

    def take(self, subject: BenchSubject, shape: Shape, repeat: int, *, left: int, ahead: int = 0) -> Cell:
        """The cell from the disk, or measured now; `left` is how many come, this one included, and `ahead` how many
        are still to be measured for the first time. What its time box cut is measured again in a longer one, as far as
        that leaves those their time: fewer repeats say more than cells that are cut."""
        place = CellPlace(self.run, self.asked.workload.name, repeat, self.asked.seed, self.taken_up)
        remembered = self.known.get((subject.letter, _key(self.asked.workload.name, shape, subject), repeat))
        if remembered is not None:
            self.cells.append(remembered)
            self.watch.on_done(remembered, True)
            return remembered
        self._enter(subject)
        usual = box = self._box_seconds(shape, left)
        if box is not None:
            box = max(box, min(self.needed.get((subject.letter, shape), 0.0), self._remaining_seconds() or 0.0))
        cell = self._measured(subject, shape, place, box)
        while cell.unfinished and cell.complete and box is not None and usual is not None:
            spare = (self._remaining_seconds() or 0.0) - ahead * usual
            if spare < _LEAST_LONGER * box:
                break
            box = self.needed[subject.letter, shape] = min(_LONGER * box, spare)
            words = f"{cell.unfinished:,} of {cell.sent:,} requests were cut: measured again for up to"
            self.watch.tell(f"{words} {units.format_duration(box)}")
            place = replace(place, box=place.box + 1)
            cell = self._measured(subject, shape, place, box)
        self.directory.append(cell)
        self.cells.append(cell)
        self.watch.on_done(cell, False)
        return cell

    def _measured(self, subject: BenchSubject, shape: Shape, place: CellPlace, box: float | None) -> Cell:
        """Warmed up once, in a part of the first box."""
        began = time.monotonic()
        warmth = (subject.letter, shape.concurrency, shape.prompt_tokens)
        if warmth not in self.warm:
            warm_up(subject, shape, seconds=None if box is None else _WARM_SHARE * box)
            self.warm.add(warmth)
        seconds = None if box is None else max(_LEAST_BOX_SECONDS, box - (time.monotonic() - began))
        with nullcontext() if seconds is None else bounds.time_limit(seconds + _LAST_PAGE_SECONDS):
            return measure(
                subject, shape, place, seconds=seconds, promise=self.asked.promise,
                patience_seconds=self.asked.patience_seconds, on_tick=self.watch.on_tick, trace=self.asked.trace,
            )  # fmt: skip

    def tell_division(self, cells: int, more: str = "") -> None:
        """What each cell may take of the budget."""
        if self.asked.budget_seconds is not None and cells:
            each = units.format_duration(max(_LEAST_BOX_SECONDS, (self._remaining_seconds() or 0.0) / cells))
            budget = units.format_duration(self.asked.budget_seconds)
            things = "cell" if cells == 1 else "cells"
            self.watch.tell(f"{budget} for {cells} {things}{more}: about {each} for each")

    def _enter(self, subject: BenchSubject) -> None:
        """Make it the one that runs; a start takes what it takes, and none of it from the budget."""
        if subject.enter is None or self.running == subject.letter:
            return
        began = time.monotonic()
        try:
            subject.enter()
        finally:
            self.began += time.monotonic() - began
        self.running = subject.letter
        self.warm.clear()

    def is_over(self, shape: Shape) -> bool:
        """Whether the budget is spent; then the cell is left for a run that goes on with this one."""
        remaining = self._remaining_seconds()
        over = remaining is not None and remaining < _LEAST_BOX_SECONDS and bool(self.cells)
        left_out = Skipped(shape=shape, reason=OUT_OF_TIME)
        if over and left_out not in self.skipped:
            self.skipped.append(left_out)
        return over

    def _remaining_seconds(self) -> float | None:
        spent = time.monotonic() - self.began
        return None if self.asked.budget_seconds is None else self.asked.budget_seconds - spent

    def _box_seconds(self, shape: Shape, left: int) -> float | None:
        """What a cell may take, its warm-up included."""
        remaining = self._remaining_seconds()
        if remaining is None:
            return None
        return max(_LEAST_BOX_SECONDS, min(remaining, self.asked.share(shape) * remaining / max(1, left)))

    def fall(self, subject: BenchSubject, reason: str) -> None:
        self.fallen[subject.letter] = reason
        notice = f"{subject.letter} fell: {reason}"
        self.skipped += [Skipped(shape=shape, reason=notice) for shape in self.asked.shapes]
        self.watch.tell(notice)

    def finish(self) -> None:
        self.directory.append(Finished(run=self.run, at=_now()))


def begin(
    asked: SweepRequest,
    directory: DeploymentDir,
    about: Sequence[str],
    watch: SweepWatch,
    since: float | None = None,
) -> SweepRun:
    """A new run, or the one that was cut off: `about` names what is measured, such as recipe digests. The budget runs
    `since` then (monotonic)."""
    since = time.monotonic() if since is None else since
    digest = hashlib.sha256(
        canonical(
            [
                asked.workload.name, [shape.model_dump(mode="json") for shape in asked.shapes],
                asked.repeats, asked.seed, list(about), asdict(asked.promise) if asked.promise else None,
                *([asked.trace.digest] if asked.trace else []),
            ]
        )
    ).hexdigest()[:12]  # fmt: skip
    runs = [started for started in directory.entries(Started) if started.asked == digest]
    finished = {ended.run for ended in directory.entries(Finished)}
    if runs and runs[-1].run not in finished and not asked.fresh:
        known = {
            (cell.subject, cell.key, cell.repeat): cell
            for cell in directory.entries(Cell)
            if cell.run == runs[-1].run and cell.complete
        }
        watch.tell(f"going on with the run of {runs[-1].at[:19]}: {len(known)} cells are there")
        return SweepRun(asked, directory, runs[-1].run, runs[-1].at, watch, known, _now(), began=since)
    started = Started(run=f"{digest}-{len(runs) + 1}", asked=digest, workload=asked.workload.name, at=_now())
    directory.append(started)
    return SweepRun(asked, directory, started.run, started.at, watch, began=since)


def sweep(course: SweepRun, subjects: Sequence[BenchSubject]) -> bool:
    """Every shape, repeat after repeat, the subjects in turns (a b, b a, ...).

    False if the server went away, or the time was over, before all of them were measured.
    A subject that falls when its turn comes is left out, and the others go on.
    """
    order = list(_order(course.asked, subjects))
    course.tell_division(len(order))
    seen: set[tuple[str, Shape]] = set()
    for done, (subject, shape, repeat) in enumerate(order):
        if subject.letter in course.fallen:
            continue
        if course.fallen and len(course.fallen) == len(subjects) - 1:
            break  # the first alone has nobody to be compared with
        if course.is_over(shape):
            continue
        course.watch.on_cell(subject, shape, repeat, done, len(order))
        seen.add((subject.letter, shape))
        ahead = len({(other.letter, further) for other, further, _ in order[done:]} - seen)
        try:
            complete = course.take(subject, shape, repeat, left=len(order) - done, ahead=ahead).complete
        except SubjectFailedError as error:
            course.fall(subject, error.message)
            continue
        if not complete and (subject.enter is None or subject is subjects[0]):
            return False
        if not complete:
            course.fall(subject, "the server went away under load")
    return not any(skipped_cell.reason == OUT_OF_TIME for skipped_cell in course.skipped)


def shapes_that_fit(
    shapes: Sequence[Shape], pool_tokens: int | None, context_tokens: int | None
) -> Iterator[Shape | Skipped]:
    """Shapes that fit the engine's cache and context; the others with the reason."""
    for shape in shapes:
        request_tokens = shape_tokens(shape)
        if context_tokens is not None and request_tokens > context_tokens:
            yield Skipped(shape=shape, reason=f"{request_tokens:,} tokens, and the context is {context_tokens:,}")
        elif pool_tokens is not None and request_tokens * shape.concurrency > pool_tokens:
            demand = f"{shape.concurrency} x {request_tokens:,} = {request_tokens * shape.concurrency:,} tokens"
            yield Skipped(shape=shape, reason=f"{demand}, and the cache holds {pool_tokens:,}: requests would wait")
        else:
            yield shape


def benchmark(
    course: SweepRun, subject: BenchSubject, *,
    title: str, deployment: str | None, engine: str | None, version: str | None,
    made_from: tuple[str, ...] = (), self_test: SelfTest | None = None, finding: str | None = None,
    names: dict[str, str] | None = None,
) -> Benchmark:  # fmt: skip
    """The record of what the course has so far."""
    return Benchmark(
        made_from=made_from, run=course.run, title=title, workload=course.asked.workload.name,
        about=course.asked.workload.about, deployment=deployment, model=subject.target.model, engine=engine,
        engine_version=version, base_url=subject.target.base_url, at=course.began_at, seed=course.asked.seed,
        repeats=course.asked.repeats, self_test=self_test, cells=tuple(course.cells), skipped=tuple(course.skipped),
        finding=finding, subjects=names or {},
    )  # fmt: skip


def _order(asked: SweepRequest, subjects: Sequence[BenchSubject]) -> Iterator[tuple[BenchSubject, Shape, int]]:
    """Cell by cell in turns where both run; where one must make room for the other, sweep by sweep."""
    if asked.around:
        yield from _around(asked, subjects)
        return
    for repeat in range(1, asked.repeats + 1):
        turn = subjects if repeat % 2 else tuple(reversed(subjects))
        if any(subject.enter for subject in subjects):
            yield from ((subject, shape, repeat) for subject in turn for shape in asked.shapes)
        else:
            yield from ((subject, shape, repeat) for shape in asked.shapes for subject in turn)


def _around(asked: SweepRequest, subjects: Sequence[BenchSubject]) -> Iterator[tuple[BenchSubject, Shape, int]]:
    """a a, b b b b, c c c c, a a: what drifts evenly is in both halves of the first, and each start is made once."""
    first, *others = subjects
    half, every = range(1, asked.repeats // 2 + 1), range(1, asked.repeats + 1)
    turns = [(first, half), *((other, every) for other in others), (first, every[len(half) :])]
    yield from ((subject, shape, repeat) for subject, repeats in turns for repeat in repeats for shape in asked.shapes)


def _key(workload: str, shape: Shape, subject: BenchSubject) -> str:
    return f"{workload} {shape.model_dump_json()} {subject.target.api}"


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


_DEFAULT_BUDGET_SECONDS = 900.0


def sweep_request(
    workload: str, concurrency: tuple[int, ...] | None, prompt_tokens: int | None, output_tokens: int | None,
    requests: int | None, rate: float | None, repeats: int, budget: float | None, ttft: float, tpot: float,
    seed: int, fresh: bool, api: str, trace: Path | None = None,
) -> SweepRequest:  # fmt: skip
    """The workload's shapes, with what was said otherwise."""
    row = named(workload)
    changes: dict[str, Any] = {}
    if concurrency:
        changes["concurrency"] = concurrency
    if prompt_tokens:
        changes |= {"prompt_tokens": prompt_tokens, "contexts": ()}
    if output_tokens:
        changes["output_tokens"] = output_tokens
    if prompt_tokens or output_tokens:
        tokens = prompt_tokens or row.prompt_tokens
        changes["about"] = f"{tokens:,} tokens in, {output_tokens or row.output_tokens:,} out" + (
            f", {row.turns} turns" if row.turns > 1 else ""
        )
    row = row.model_copy(update=changes)
    shapes = row.shapes()
    if requests is not None:
        shapes = [shape.model_copy(update={"requests": requests}) for shape in shapes]
    if rate is not None:
        if row.search is not None:
            raise UsageError(
                f"--rate cannot be given to {row.name}, which looks for one", hint="--workload short --rate 4"
            )
        shapes = [open_loop_shape(shape, rate, shape.requests) for shape in shapes]
    seconds = _DEFAULT_BUDGET_SECONDS if budget is None else budget
    promise, agents = RequestSlo(ttft, tpot), load(trace, AgentTrace) if trace else None
    return SweepRequest(row, tuple(shapes), repeats, seed, seconds, promise, fresh=fresh, trace=agents)
