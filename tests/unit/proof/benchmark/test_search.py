"""What a search finds, on cells whose truth is known: no engine, no clock."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from tests.scripted.cells import cell
from upright.facts.records.benchmark import Cell, Shape
from upright.facts.store import DeploymentDir
from upright.proof.benchmark import sweep
from upright.proof.benchmark.cell import (
    BenchSubject,
    CellPlace,
    RequestSlo,
    SubjectFailedError,
    _good_percent,
    open_loop_shape,
    prompt_seed,
)
from upright.proof.benchmark.load import LoadTarget, StreamTally
from upright.proof.benchmark.prompts import Prompts, TokenGauge
from upright.proof.benchmark.search import search
from upright.proof.benchmark.sweep import SweepRequest, SweepWatch, begin
from upright.proof.benchmark.workload import workload

Happened = Callable[[Shape, int], dict[str, Any]]
FAILED = ("4 of 16 requests failed: HTTP 429 (4)",)
PROMISE = RequestSlo(2.0, 0.05)


@pytest.fixture
def found(place: DeploymentDir, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str | None]:
    """The finding of a search whose cells are what a function of shape and repeat says."""

    def run(name: str, happened: Happened, *, repeats: int = 3, concurrency: tuple[int, ...] = (2, 4, 8)) -> str | None:
        def measure(subject: BenchSubject, shape: Shape, where: CellPlace, **_: object) -> Cell:
            made = cell(subject.letter, shape.concurrency, where.repeat, 100.0, where.run)
            return made.model_copy(update={"shape": shape, "workload": where.workload, **happened(shape, where.repeat)})

        monkeypatch.setattr(sweep, "measure", measure)
        monkeypatch.setattr(sweep, "warm_up", lambda *_, **__: None)
        row = workload(name).model_copy(update={"concurrency": concurrency})
        asked = SweepRequest(row, tuple(row.shapes()), repeats, promise=PROMISE, fresh=True)
        subject = BenchSubject(LoadTarget("http://127.0.0.1:9", "m"), TokenGauge(1, ("a",), 1))
        whole, findings = search(begin(asked, place, (), SweepWatch()), [subject])
        assert whole
        return findings.get("a")

    return run


@pytest.mark.parametrize("name", ["knee", "goodput"])
def test_both_sides_of_a_comparison_are_searched_in_turns(
    name: str, place: DeploymentDir, monkeypatch: pytest.MonkeyPatch
):
    """The default workload looks for a knee: a's is at 2 at once, b's at 4."""
    taken: list[tuple[str, int, int]] = []

    def measure(subject: BenchSubject, shape: Shape, where: CellPlace, **_: object) -> Cell:
        taken.append((subject.letter, shape.concurrency, where.repeat))
        speed = 100.0 * min(shape.concurrency, 2 if subject.letter == "a" else 4)
        made = cell(subject.letter, shape.concurrency, where.repeat, speed, where.run)
        return made.model_copy(update={"shape": shape, "workload": where.workload, "good_percent": 99.0})

    monkeypatch.setattr(sweep, "measure", measure)
    monkeypatch.setattr(sweep, "warm_up", lambda *_, **__: None)
    row = workload(name).model_copy(update={"concurrency": (1, 2, 4, 8)})
    asked = SweepRequest(row, tuple(row.shapes()), 2, promise=PROMISE, fresh=True)
    subjects = [
        BenchSubject(LoadTarget("http://127.0.0.1:9", "m"), TokenGauge(1, ("a",), 1), letter=letter) for letter in "ab"
    ]
    whole, findings = search(begin(asked, place, (), SweepWatch()), subjects)
    assert whole
    assert set(findings) == {"a", "b"}
    assert taken[:4] == [("a", taken[0][1], 1), ("b", taken[0][1], 1), ("b", taken[0][1], 2), ("a", taken[0][1], 2)]
    if name == "knee":
        assert findings["a"].startswith("the knee is at 2 at once")
        assert findings["b"].startswith("the knee is at 4 at once")


def test_one_that_cannot_be_started_ends_its_own_search_alone(place: DeploymentDir, monkeypatch: pytest.MonkeyPatch):
    def measure(subject: BenchSubject, shape: Shape, where: CellPlace, **_: object) -> Cell:
        made = cell(subject.letter, shape.concurrency, where.repeat, 100.0, where.run)
        return made.model_copy(update={"shape": shape, "workload": where.workload})

    def falls() -> None:
        raise SubjectFailedError("no such recipe")

    monkeypatch.setattr(sweep, "measure", measure)
    monkeypatch.setattr(sweep, "warm_up", lambda *_, **__: None)
    row = workload("knee").model_copy(update={"concurrency": (1, 2)})
    target, gauge = LoadTarget("http://127.0.0.1:9", "m"), TokenGauge(1, ("a",), 1)
    subjects = [BenchSubject(target, gauge, enter=lambda: None), BenchSubject(target, gauge, letter="b", enter=falls)]
    course = begin(SweepRequest(row, tuple(row.shapes()), 2, fresh=True), place, (), SweepWatch())
    whole, findings = search(course, subjects)
    assert whole
    assert findings["a"].startswith("the knee is at 1 at once")
    assert findings["b"] == "could not be measured: no such recipe"
    assert {left_out.reason for left_out in course.skipped} == {"b fell: no such recipe"}


def test_one_concurrency_has_no_knee(found: Callable[..., str]):
    words = found("knee", lambda shape, repeat: {}, concurrency=(4,))
    assert words == "100 tok/s at 4 at once; a knee needs more than one concurrency"


def test_what_a_time_box_cut_is_measured_again_in_a_longer_one(place: DeploymentDir, monkeypatch: pytest.MonkeyPatch):
    """Answers of 40 s, and 3 minutes for 3 cells three times each. Before, boxes of 20 s cut every one of them."""
    now, said, seeds = [0.0], list[str](), list[str]()

    def measure(subject: BenchSubject, shape: Shape, where: CellPlace, *, seconds: float, **_: object) -> Cell:
        now[0] += min(seconds, 40.0)
        seeds.append(prompt_seed(shape, where))
        made = cell(subject.letter, shape.concurrency, where.repeat, 100.0, where.run)
        cut = {"succeeded": 0, "unfinished": 1, "marks": ("cut",)} if seconds < 40 else {}
        return made.model_copy(update={"shape": shape, "workload": where.workload, **cut})

    monkeypatch.setattr(sweep, "measure", measure)
    monkeypatch.setattr(sweep, "warm_up", lambda *_, **__: None)
    monkeypatch.setattr(sweep, "time", SimpleNamespace(monotonic=lambda: now[0]))
    row = workload("short").model_copy(update={"concurrency": (1, 2, 4)})
    asked = SweepRequest(row, tuple(row.shapes()), 3, budget_seconds=180, fresh=True)
    course = begin(asked, place, (), SweepWatch(tell=said.append))
    sweep.sweep(course, [BenchSubject(LoadTarget("http://127.0.0.1:9", "m"), TokenGauge(1, ("a",), 1))])
    assert said[0] == "3 min for 9 cells: about 20 s for each"
    assert [made.shape.concurrency for made in course.cells if not made.marks] == [1, 2]
    assert 160 <= now[0] <= 180, "it is used, and kept"
    assert len(seeds) == len(set(seeds)), "the engine's cache holds the prompts of the box before"


def test_a_repeat_whose_requests_failed_does_not_make_a_knee(found: Callable[..., str]):
    def happened(shape: Shape, repeat: int) -> dict[str, Any]:
        failed = shape.concurrency == 8 and repeat > 1
        return {"output_tokens_per_second": 0.0 if failed else 100.0 * shape.concurrency, "marks": FAILED * failed}

    assert found("knee", happened) == "no knee up to 8 at once: 800 tok/s and still growing"


def test_a_step_without_a_clean_repeat_leaves_the_knee_unknown(found: Callable[..., str]):
    def happened(shape: Shape, repeat: int) -> dict[str, Any]:
        return {"output_tokens_per_second": 100.0 * shape.concurrency, "marks": FAILED * (shape.concurrency == 8)}

    assert found("knee", happened) == (
        "no knee up to 4 at once: 400 tok/s and still growing;"
        " at 8 no repeat was clean: 4 of 16 requests failed: HTTP 429 (4)"
    )
    assert found("knee", lambda shape, repeat: {"marks": FAILED}) == (
        "no knee was found: at 2 at once no repeat was clean: 4 of 16 requests failed: HTTP 429 (4)"
    )


def test_behind_a_knee_is_a_queue(found: Callable[..., str]):
    queued = ("queued: the engine worked on 4 of 8 at most, 4 waited",)

    def happened(shape: Shape, repeat: int) -> dict[str, Any]:
        return {"output_tokens_per_second": 100.0 * shape.concurrency, "marks": queued * (shape.concurrency == 8)}

    assert found("knee", happened) == (
        "the knee is at 4 at once: 400 tok/s; at 8 the engine worked on 4 of 8 at most, 4 waited"
    )


def good(up_to: float, **more: Any) -> Happened:
    def happened(shape: Shape, repeat: int) -> dict[str, Any]:
        rate = shape.requests_per_second
        kept = rate is not None and rate <= up_to
        return {"requests_per_second": 100.0, "good_percent": 99.0 if kept else 50.0, **({} if kept else more)}

    return happened


def test_goodput_names_only_rates_that_were_tried(found: Callable[..., str]):
    words = "TTFT within 2 s and 50 ms a token"
    assert found("goodput", good(1000)) == (
        f"up to 98.5 requests a second keep {words} for 99 % (more was not tried; a full closed loop makes 100)"
    )
    assert found("goodput", good(60)) == f"up to 59.4 requests a second keep {words} for 99 % (at 61 no longer)"
    assert found("goodput", good(0)) == (f"no rate down to 1.56 requests a second keeps {words} for 95 % of requests")


def test_goodput_says_what_was_wrong_with_a_rate(found: Callable[..., str]):
    assert found("goodput", good(60, marks=FAILED)).endswith(
        "for 99 % (at 61 no repeat was clean: 4 of 16 requests failed: HTTP 429 (4))"
    )
    assert found("goodput", good(0, marks=FAILED)).endswith(
        "for 95 % of requests; at 1.56 no repeat was clean: 4 of 16 requests failed: HTTP 429 (4)"
    )


def test_goodput_is_the_mean_of_the_clean_repeats(found: Callable[..., str]):
    def happened(shape: Shape, repeat: int) -> dict[str, Any]:
        if repeat == 1:
            return {"requests_per_second": 100.0, "good_percent": 10.0, "marks": FAILED}
        return {"requests_per_second": 100.0, "good_percent": 97.0 if repeat == 2 else 95.0}

    assert "keep TTFT within 2 s and 50 ms a token for 96 % (" in found("goodput", happened)


def test_one_answer_of_one_token_does_not_lift_the_promise_for_all():
    tally = StreamTally()
    tally.began = 0.0
    for pieces in [[0.1, 0.2, 0.3]] * 99 + [[0.1]]:
        tally.sent += 1
        usage = {"prompt": 1, "output": len(pieces)}
        tally.succeed(pieces, 0.0, pieces[-1], usage, "length", asked_prompt=None, text="a")
    assert _good_percent(tally, RequestSlo(1.0, 0.05)) == 1.0
    assert _good_percent(tally, RequestSlo(1.0, 0.2)) == 100.0
    assert len(tally.tpot) == 99


def test_cells_judged_by_another_promise_are_not_taken_up(place: DeploymentDir):
    row = workload("goodput")
    one, other = (SweepRequest(row, tuple(row.shapes()), promise=RequestSlo(ttft, 0.05)) for ttft in (1.0, 2.0))
    first = begin(one, place, (), SweepWatch())
    assert begin(one, place, (), SweepWatch()).run == first.run
    assert begin(other, place, (), SweepWatch()).run != first.run


def test_no_prompt_is_sent_twice(place: DeploymentDir, monkeypatch: pytest.MonkeyPatch):
    """Not at another rate, not by a cell that was cut off and is tried again: the engine's cache would hold them."""
    sent: list[bytes] = []

    def run(target: LoadTarget, source: Prompts, *_: object, **__: object) -> None:
        sent.append(source.first().payload)
        raise KeyboardInterrupt

    monkeypatch.setattr("upright.proof.benchmark.cell.run", run)
    monkeypatch.setattr(sweep, "warm_up", lambda *_, **__: None)
    row = workload("goodput").model_copy(update={"concurrency": (2,)})
    (closed,) = row.shapes()
    subject = BenchSubject(LoadTarget("http://127.0.0.1:9", "m"), TokenGauge(1, ("a", "b"), 1))
    asked = SweepRequest(row, (closed,))
    for course in (begin(asked, place, (), SweepWatch()), begin(asked, place, (), SweepWatch())):
        for shape in (closed, open_loop_shape(closed, 2.0, 4), open_loop_shape(closed, 4.0, 4)):
            with pytest.raises(KeyboardInterrupt):
                course.take(subject, shape, 1, left=1)
    assert len(sent) == len(set(sent)) == 6


def test_a_cell_has_a_least_length_whatever_its_warm_up_took(place: DeploymentDir, monkeypatch: pytest.MonkeyPatch):
    boxes: list[float | None] = []

    def measure(subject: BenchSubject, shape: Shape, where: CellPlace, *, seconds: float | None, **_: object) -> Cell:
        boxes.append(seconds)
        now[0] += seconds or 0.0
        made = cell(subject.letter, shape.concurrency, where.repeat, 100.0, where.run)
        return made.model_copy(update={"shape": shape, "workload": where.workload})

    monkeypatch.setattr(sweep, "measure", measure)
    monkeypatch.setattr(sweep, "warm_up", lambda *_, **__: now.__setitem__(0, now[0] + 5.0))
    now = [0.0]
    monkeypatch.setattr(sweep.time, "monotonic", lambda: now[0])
    row = workload("short").model_copy(update={"concurrency": (1, 2, 4)})
    asked = SweepRequest(row, tuple(row.shapes()), 1, budget_seconds=13.0, fresh=True)
    course = begin(asked, place, (), SweepWatch())
    course.began = 0.0
    whole = sweep.sweep(course, [BenchSubject(LoadTarget("http://127.0.0.1:9", "m"), TokenGauge(1, ("a",), 1))])
    assert not whole
    assert boxes == [2.0, 2.0]
    assert [left_out.shape.concurrency for left_out in course.skipped] == [4], "no time is left for it: it is not begun"
