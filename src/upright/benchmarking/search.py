"""One cell after another, each chosen by the last -> the knee of a curve, or the rate that keeps a promise."""

from __future__ import annotations

from upright.benchmarking.cell import Subject, open_shape
from upright.benchmarking.sweep import Course
from upright.records.benchmark import Cell, Shape

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
    best: list[float] = []
    shapes = course.asked.shapes
    for step, shape in enumerate(shapes):
        values = []
        for repeat in range(1, course.asked.repeats + 1):
            if course.is_over(shape):
                return False, None
            course.watch.on_cell(subject, shape, repeat, step * course.asked.repeats + repeat - 1, 0)
            cell = course.take(subject, shape, repeat, left=_cells_left(course, step, repeat))
            if not cell.complete:
                return False, None
            values.append(cell.output_tokens_per_second)
        best.append(sum(values) / len(values))
        if len(best) > 1 and best[-1] < _WORTH * best[-2]:
            knee = shapes[step - 1].concurrency
            gain = 100 * (best[-1] / best[-2] - 1) if best[-2] else 0.0
            more = f"{shape.concurrency} at once change that by {gain:+.0f} %"
            return True, f"the knee is at {knee} at once: {best[-2]:,.0f} tok/s; {more}"
    if not best:
        return True, None
    return True, f"no knee up to {shapes[-1].concurrency} at once: {best[-1]:,.0f} tok/s and still growing"


def _cells_left(course: Course, step: int, repeat: int) -> int:
    """A guess for the time box: a search usually ends a few steps from where it is."""
    return min(4, len(course.asked.shapes) - step) * course.asked.repeats - (repeat - 1)


def _goodput(course: Course, subject: Subject) -> tuple[bool, str | None]:
    """First the rate of a full closed loop, which no promise survives, then halves between the good and the bad."""
    if not course.asked.shapes:
        return True, None
    shape, promise = course.asked.shapes[0], course.asked.promise
    assert promise is not None
    course.watch.on_cell(subject, shape, 1, 0, _STEPS + 1)
    full = course.take(subject, shape, 1, left=_STEPS + 1)
    if not full.complete or not full.succeeded:
        return False, None
    low, high = 0.0, full.requests_per_second
    kept: Cell | None = None
    for step in range(1, _STEPS + 1):
        rate = _tidy((low + high) / 2 if step > 1 else 0.5 * high)
        tried = _at_rate(shape, rate)
        if course.is_over(tried):
            return False, None
        course.watch.on_cell(subject, tried, 1, step, _STEPS + 1)
        cell = course.take(subject, tried, 1, left=_STEPS + 1 - step)
        if not cell.complete:
            return False, None
        if (cell.good_percent or 0.0) >= _GOOD_PERCENT:
            low, kept = rate, cell
        else:
            high = rate
    words = f"TTFT within {promise.ttft_seconds:g} s and {1000 * promise.tpot_seconds:g} ms a token"
    if kept is None:
        return True, f"no rate down to {high:g} requests a second keeps {words} for {_GOOD_PERCENT:g} % of requests"
    rate = kept.shape.requests_per_second or 0.0
    return True, f"up to {rate:g} requests a second keep {words} for {kept.good_percent:.0f} % (at {high:g} no longer)"


def _at_rate(shape: Shape, rate: float) -> Shape:
    return open_shape(shape, rate, max(_LEAST_REQUESTS, round(rate * _CELL_SECONDS)))


def _tidy(rate: float) -> float:
    """Three digits: a resumed search must ask for the very same rates."""
    return float(f"{rate:.3g}")
