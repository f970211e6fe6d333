"""Searches the knee of a curve, or the highest rate within an SLO, cell by cell.

What is found rests on repeats that nothing is wrong with; where a step has none, the finding says so. Several subjects
are searched in turns, step by step; where one must make room for the other, one after the other.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field

from upright.facts.records.benchmark import Cell, Shape
from upright.proof.benchmark.cell import BenchSubject, SubjectFailedError, open_loop_shape
from upright.proof.benchmark.cell_marks import QUEUED
from upright.proof.benchmark.rows import ShapeRow
from upright.proof.benchmark.sweep import SweepRun

_WORTH = 1.10
"""Twice the requests must bring at least a tenth more, else the knee is behind us."""
_GOOD_PERCENT = 95.0
_STEPS = 6
_LEAST_REQUESTS = 20
_CELL_SECONDS = 20.0


@dataclass(frozen=True)
class SearchStep:
    """A step of a search: the shape to measure next, and how many steps may still come, this one included."""

    shape: Shape
    number: int
    steps_left: int


Search = Generator[SearchStep, ShapeRow, str | None]
"""Asks for one trial after another, is given its row, and ends with what was found."""


@dataclass
class SubjectSearch:
    """The search of one subject as it goes."""

    subject: BenchSubject
    way: Search
    trial: SearchStep | None = None
    finding: str | None = None
    cells: list[Cell] = field(default_factory=list)

    def begin(self) -> None:
        try:
            self.trial = next(self.way)
        except StopIteration as end:
            self.trial, self.finding = None, end.value

    def go_on(self) -> None:
        assert self.trial is not None
        row, self.cells = ShapeRow(self.subject.letter, self.trial.shape, tuple(self.cells)), []
        try:
            self.trial = self.way.send(row)
        except StopIteration as end:
            self.trial, self.finding = None, end.value


def search(course: SweepRun, subjects: Sequence[BenchSubject]) -> tuple[bool, dict[str, str]]:
    """Whether it came to its end, and what it found of each subject, by letter."""
    looking_for = _goodput if course.asked.workload.search == "goodput" else _knee
    walks = [SubjectSearch(subject, looking_for(course)) for subject in subjects]
    for walk in walks:
        walk.begin()
    steps = max((walk.trial.steps_left for walk in walks if walk.trial is not None), default=0)
    course.tell_division(len(walks) * steps * course.asked.repeats, " or more")
    exclusive = any(subject.enter for subject in subjects)
    while active := [walk for walk in walks if walk.trial is not None]:
        if not _step(course, active[:1] if exclusive else active):
            return False, {}
    return True, {walk.subject.letter: walk.finding for walk in walks if walk.finding}


def _step(course: SweepRun, walks: Sequence[SubjectSearch]) -> bool:
    """Every repeat of each walk's trial, in turns (a b, b a, ...). False if a server went away or the time was over."""
    for repeat in range(1, course.asked.repeats + 1):
        for walk in walks if repeat % 2 else list(reversed(walks)):
            try:
                if not _taken(course, walk, repeat, len(walks)):
                    return False
            except SubjectFailedError as error:
                course.fall(walk.subject, error.message)
                walk.trial, walk.finding = None, f"could not be measured: {error.message}"
    for walk in walks:
        if walk.trial is not None:
            walk.go_on()
    return True


def _taken(course: SweepRun, walk: SubjectSearch, repeat: int, of: int) -> bool:
    """One cell of a walk, if it has not fallen; `of` so many walk side by side."""
    trial, repeats = walk.trial, course.asked.repeats
    if trial is None:
        return True
    if course.is_over(trial.shape):
        return False
    done = of * (trial.number * repeats + repeat - 1)
    course.watch.on_cell(walk.subject, trial.shape, repeat, done, of * _cells(course))
    left = of * (trial.steps_left * repeats - (repeat - 1))
    ahead = of * (trial.steps_left - 1)
    walk.cells.append(course.take(walk.subject, trial.shape, repeat, left=left, ahead=ahead))
    return walk.cells[-1].complete


def _knee(course: SweepRun) -> Search:
    before: float | None = None
    shapes = course.asked.shapes
    for step, shape in enumerate(shapes):
        row = yield SearchStep(shape, step, min(4, len(shapes) - step))
        below = shapes[step - 1].concurrency if step else 0
        if row.marked and len(shapes) == 1:
            return f"at {shape.concurrency} at once {_unclean(row)}; a knee needs more than one concurrency"
        if row.marked:
            return _knee_unclean(row, below, before)
        now = _mean(row, "output")
        if before is not None and now < _WORTH * before:
            more = f"{shape.concurrency} at once change that by {100 * (now / before - 1):+.0f} %"
            return f"the knee is at {below} at once: {before:,.0f} tok/s; {more}"
        before = now
    if before is None:
        return None
    if len(shapes) == 1:
        return f"{before:,.0f} tok/s at {shapes[0].concurrency} at once; a knee needs more than one concurrency"
    return f"no knee up to {shapes[-1].concurrency} at once: {before:,.0f} tok/s and still growing"


def _knee_unclean(row: ShapeRow, below: int, before: float | None) -> str:
    """A queue is what lies behind a knee; anything else that marks every repeat leaves it unknown."""
    at = f"at {row.shape.concurrency}"
    if before is None:
        return f"no knee was found: {at} at once {_unclean(row)}"
    if all(mark.startswith(QUEUED) for mark in row.marks):
        return f"the knee is at {below} at once: {before:,.0f} tok/s; {at} {row.marks[0].removeprefix(QUEUED)}"
    return f"no knee up to {below} at once: {before:,.0f} tok/s and still growing; {at} {_unclean(row)}"


def _goodput(course: SweepRun) -> Search:
    """First the rate of a full closed loop, which hardly a promise survives, then halves between good and bad."""
    if not course.asked.shapes:
        return None
    shape = course.asked.shapes[0]
    full = yield SearchStep(shape, 0, _STEPS + 1)
    if not any(cell.succeeded for cell in full.cells):
        return f"nothing can be promised: at {shape.concurrency} at once no request succeeded"
    most = max(cell.requests_per_second for cell in full.cells)
    low, high = 0.0, most
    kept: ShapeRow | None = None
    broken: ShapeRow | None = None
    for step in range(1, _STEPS + 1):
        rate = _tidy((low + high) / 2)
        row = yield SearchStep(_at_rate(shape, rate), step, _STEPS + 1 - step)
        if not row.marked and _mean(row, "good") >= _GOOD_PERCENT:
            low, kept = rate, row
        else:
            high, broken = rate, row
    return _goodput_words(course, kept, broken, most)


def _goodput_words(course: SweepRun, kept: ShapeRow | None, broken: ShapeRow | None, most: float) -> str:
    promise = course.asked.promise
    assert promise is not None
    promise_text = f"TTFT within {promise.ttft_seconds:g} s and {1000 * promise.tpot_seconds:g} ms a token"
    if broken is None:
        beyond = f"more was not tried; a full closed loop makes {most:.3g}"
    else:
        beyond = f"at {_rate(broken):g} {_unclean(broken) if broken.marked else 'no longer'}"
    if kept is not None:
        return f"up to {_rate(kept):g} requests a second keep {promise_text} for {_mean(kept, 'good'):.0f} % ({beyond})"
    assert broken is not None
    why = f"; {beyond}" if broken.marked else ""
    rate, share = f"{_rate(broken):g} requests a second", f"{_GOOD_PERCENT:g} % of requests"
    return f"no rate down to {rate} keeps {promise_text} for {share}{why}"


def _cells(course: SweepRun) -> int:
    """Of the whole search; 0 if nobody knows where it ends."""
    return (_STEPS + 1) * course.asked.repeats if course.asked.workload.search == "goodput" else 0


def _mean(row: ShapeRow, metric: str) -> float:
    estimate = row.mean(metric)
    return estimate.value if estimate is not None else 0.0


def _unclean(row: ShapeRow) -> str:
    return f"no repeat was clean: {row.marks[0]}"


def _rate(row: ShapeRow) -> float:
    return row.shape.requests_per_second or 0.0


def _at_rate(shape: Shape, rate: float) -> Shape:
    return open_loop_shape(shape, rate, max(_LEAST_REQUESTS, round(rate * _CELL_SECONDS)))


def _tidy(rate: float) -> float:
    """Three digits: a resumed search must ask for the very same rates."""
    return float(f"{rate:.3g}")
