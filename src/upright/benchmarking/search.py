"""One cell after another, each chosen by the last -> the knee of a curve, or the rate that keeps a promise.

What is found rests on repeats that nothing is wrong with; where a step has none, the finding says so.
"""

from __future__ import annotations

from upright.benchmarking.cell import Subject, open_shape
from upright.benchmarking.rows import Row
from upright.benchmarking.sweep import Course
from upright.benchmarking.verdict import QUEUED
from upright.records.benchmark import Shape

_WORTH = 1.10
"""Twice the requests must bring at least a tenth more, else the knee is behind us."""
_GOOD_PERCENT = 95.0
_STEPS = 6
_LEAST_REQUESTS = 20
_CELL_SECONDS = 20.0


def search(course: Course, subject: Subject) -> tuple[bool, str | None]:
    """Whether it came to its end, and what it found."""
    if course.asked.workload.search == "goodput":
        return _goodput(course, subject)
    return _knee(course, subject)


def _knee(course: Course, subject: Subject) -> tuple[bool, str | None]:
    before: float | None = None
    shapes = course.asked.shapes
    for step, shape in enumerate(shapes):
        row = _row(course, subject, shape, step, steps_left=min(4, len(shapes) - step))
        if row is None:
            return False, None
        below = shapes[step - 1].concurrency if step else 0
        if row.marked:
            return True, _knee_unclean(row, below, before)
        now = _mean(row, "output")
        if before is not None and now < _WORTH * before:
            more = f"{shape.concurrency} at once change that by {100 * (now / before - 1):+.0f} %"
            return True, f"the knee is at {below} at once: {before:,.0f} tok/s; {more}"
        before = now
    if before is None:
        return True, None
    return True, f"no knee up to {shapes[-1].concurrency} at once: {before:,.0f} tok/s and still growing"


def _knee_unclean(row: Row, below: int, before: float | None) -> str:
    """A queue is what lies behind a knee; anything else that marks every repeat leaves it unknown."""
    at = f"at {row.shape.concurrency}"
    if before is None:
        return f"no knee was found: {at} at once {_unclean(row)}"
    if all(words.startswith(QUEUED) for words in row.marks):
        return f"the knee is at {below} at once: {before:,.0f} tok/s; {at} {row.marks[0].removeprefix(QUEUED)}"
    return f"no knee up to {below} at once: {before:,.0f} tok/s and still growing; {at} {_unclean(row)}"


def _goodput(course: Course, subject: Subject) -> tuple[bool, str | None]:
    """First the rate of a full closed loop, which hardly a promise survives, then halves between good and bad."""
    if not course.asked.shapes:
        return True, None
    shape = course.asked.shapes[0]
    full = _row(course, subject, shape, 0, steps_left=_STEPS + 1)
    if full is None or not any(cell.succeeded for cell in full.cells):
        return False, None
    most = max(cell.requests_per_second for cell in full.cells)
    low, high = 0.0, most
    kept: Row | None = None
    broken: Row | None = None
    for step in range(1, _STEPS + 1):
        rate = _tidy((low + high) / 2)
        row = _row(course, subject, _at_rate(shape, rate), step, steps_left=_STEPS + 1 - step)
        if row is None:
            return False, None
        if not row.marked and _mean(row, "good") >= _GOOD_PERCENT:
            low, kept = rate, row
        else:
            high, broken = rate, row
    return True, _goodput_words(course, kept, broken, most)


def _goodput_words(course: Course, kept: Row | None, broken: Row | None, most: float) -> str:
    promise = course.asked.promise
    assert promise is not None
    words = f"TTFT within {promise.ttft_seconds:g} s and {1000 * promise.tpot_seconds:g} ms a token"
    if broken is None:
        beyond = f"more was not tried; a full closed loop makes {most:.3g}"
    else:
        beyond = f"at {_rate(broken):g} {_unclean(broken) if broken.marked else 'no longer'}"
    if kept is not None:
        return f"up to {_rate(kept):g} requests a second keep {words} for {_mean(kept, 'good'):.0f} % ({beyond})"
    assert broken is not None
    why = f"; {beyond}" if broken.marked else ""
    return f"no rate down to {_rate(broken):g} requests a second keeps {words} for {_GOOD_PERCENT:g} % of requests{why}"


def _row(course: Course, subject: Subject, shape: Shape, step: int, *, steps_left: int) -> Row | None:
    """Every repeat of one step; None if the server went away, or the time was over. `steps_left` may be a guess."""
    repeats = course.asked.repeats
    cells = []
    for repeat in range(1, repeats + 1):
        if course.is_over(shape):
            return None
        done = step * repeats + repeat - 1
        course.watch.on_cell(subject, shape, repeat, done, _cells(course))
        cells.append(course.take(subject, shape, repeat, left=steps_left * repeats - (repeat - 1)))
        if not cells[-1].complete:
            return None
    return Row(subject.letter, shape, tuple(cells))


def _cells(course: Course) -> int:
    """Of the whole search; 0 if nobody knows where it ends."""
    return (_STEPS + 1) * course.asked.repeats if course.asked.workload.search == "goodput" else 0


def _mean(row: Row, metric: str) -> float:
    found = row.mean(metric)
    return found.value if found is not None else 0.0


def _unclean(row: Row) -> str:
    return f"no repeat was clean: {row.marks[0]}"


def _rate(row: Row) -> float:
    return row.shape.requests_per_second or 0.0


def _at_rate(shape: Shape, rate: float) -> Shape:
    return open_shape(shape, rate, max(_LEAST_REQUESTS, round(rate * _CELL_SECONDS)))


def _tidy(rate: float) -> float:
    """Three digits: a resumed search must ask for the very same rates."""
    return float(f"{rate:.3g}")
