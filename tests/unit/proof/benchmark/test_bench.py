"""A whole run: cells on the disk, marks, resuming, searching; on the scheduled server."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import click
import pytest

from tests.conftest import Upright
from tests.ports import free_port
from tests.scripted.schedule import Faults, faulty
from upright.app.cli.main import cli
from upright.base.errors import UprightError
from upright.facts.records.benchmark import OUT_OF_TIME, Benchmark, Cell, Shape
from upright.facts.store import DeploymentDir
from upright.proof.benchmark.bench import bench, saved_benchmarks
from upright.proof.benchmark.cell import SubjectFailedError
from upright.proof.benchmark.endpoints import KnownEndpoint
from upright.proof.benchmark.load import LoadTarget, StreamTally
from upright.proof.benchmark.scheduled_server import Schedule, command
from upright.proof.benchmark.selftest import scheduled
from upright.proof.benchmark.sweep import SweepRequest, SweepWatch
from upright.proof.benchmark.workload import workload, workloads

QUICK = Schedule(ttft_seconds=0.05, itl_seconds=0.005)


def asked(
    name: str = "short", *, concurrency: tuple[int, ...] = (2, 4), repeats: int = 2, tokens: int = 10
) -> SweepRequest:
    row = workload(name).model_copy(update={"concurrency": concurrency, "output_tokens": tokens})
    return SweepRequest(row, tuple(row.shapes()), repeats, budget_seconds=600)


def measured(url: str, place: DeploymentDir, what: SweepRequest, said: list[str] | None = None) -> Benchmark:
    known = KnownEndpoint(LoadTarget(url, "scheduled"), "scheduled", metrics_path="/metrics")
    watch = SweepWatch(tell=(said if said is not None else []).append)
    return bench([known], what, place, watch, test=False)


def test_what_was_asked_and_what_happened(url: str, place: DeploymentDir):
    record = measured(url, place, asked())
    assert [(cell.shape.concurrency, cell.repeat) for cell in record.cells] == [(2, 1), (4, 1), (2, 2), (4, 2)]
    for cell in record.cells:
        assert cell.marks == ()
        assert cell.prompt_tokens.mean == 256
        assert cell.finish_reasons == {"length": cell.shape.requests}
        assert cell.in_flight_peak == cell.shape.concurrency
        assert cell.engine.output_tokens == 10 * cell.shape.requests
        assert cell.engine.prompt_tokens == 256 * cell.shape.requests
        assert cell.latency_seconds.low > 0.09, "50 ms and nine times 5: a busy machine is late, never early"
    assert record.clean
    assert saved_benchmarks(place) == (record,)
    again = measured(url, place, asked(concurrency=(2,), repeats=1))
    assert again.run != record.run
    assert saved_benchmarks(place) == (again,)


def test_failures_are_counted_and_marked(place: DeploymentDir):
    with scheduled(faulty(QUICK, Faults("500"))) as url:
        record = measured(url, place, asked(concurrency=(5,), repeats=1))
    (cell,) = record.cells
    assert cell.errors == {"HTTP 500": 2}
    assert cell.marks[0] == "2 of 10 requests failed: HTTP 500 (2)"
    assert not record.clean


def test_queued_requests_are_not_concurrency(place: DeploymentDir):
    with scheduled(command(Schedule(ttft_seconds=0.05, itl_seconds=0.05, slots=2))) as url:
        (cell,) = measured(url, place, asked(concurrency=(8,), repeats=1, tokens=16)).cells
    assert cell.engine.running.high == 2
    assert cell.marks[0].startswith("queued: the engine worked on 2 of 8 at most")


@pytest.mark.slow
def test_a_server_that_dies_in_the_middle(place: DeploymentDir):
    """What was measured stays; a run with the same server back measures what is missing, and that alone."""
    there = replace(QUICK, port=free_port())
    with scheduled(faulty(there, Faults("die", every=10_000, after=26))) as url:
        record = measured(url, place, asked(concurrency=(1, 2, 4)))
    assert [cell.complete for cell in record.cells] == [True] * (len(record.cells) - 1) + [False]
    assert 2 <= len(record.cells) < 6
    assert "the server went away" in record.cells[-1].marks
    assert record.unfinished
    assert not record.clean
    said: list[str] = []
    with scheduled(command(there)) as url:
        again = measured(url, place, asked(concurrency=(1, 2, 4)), said)
    assert said[0].endswith(f": {len(record.cells) - 1} cells are there")
    assert again.run == record.run
    assert again.cells[: len(record.cells) - 1] == record.cells[:-1], "measured once"
    assert len(again.cells) == 6
    assert again.clean
    assert not again.unfinished


@pytest.mark.slow
def test_a_reader_that_stands_still_is_marked(url: str, place: DeploymentDir):
    """The server wrote in time, and nobody was there to read: that is no latency of the server's."""
    slow = [2.0]

    def on_tick(tally: StreamTally, in_flight: int) -> None:
        if in_flight and slow:
            time.sleep(slow.pop())

    known = KnownEndpoint(LoadTarget(url, "scheduled"), "scheduled", metrics_path="/metrics")
    what = asked(concurrency=(2,), repeats=2, tokens=200)
    first, second = bench([known], what, place, SweepWatch(on_tick=on_tick), test=False).cells
    assert stood_still(first) >= 1.5
    assert stood_still(second) < stood_still(first), "a busy machine stands still, too, and is marked for its own time"


def stood_still(cell: Cell) -> float:
    """Seconds, as its marks tell them."""
    told = (re.match(r"the generator stood still for ([0-9.]+) s", mark) for mark in cell.marks)
    return max((float(match[1]) for match in told if match), default=0.0)


@pytest.mark.slow
def test_a_budget_is_kept_and_what_is_left_is_measured_by_the_same_command(place: DeploymentDir):
    """Answers that take longer than all of the budget: warm-ups are in it, and what is promised to later cells."""
    with scheduled(command(Schedule(ttft_seconds=0.3, itl_seconds=0.1))) as url:
        what = replace(asked(concurrency=(1, 2, 4, 8), repeats=3, tokens=100), budget_seconds=8)
        began = time.monotonic()
        record = measured(url, place, what)
        spent = time.monotonic() - began
        assert spent < 60, "without a budget twelve cells take two minutes and more, however quick the machine"
        assert record.cells
        assert {item.reason for item in record.skipped} == {OUT_OF_TIME}
        assert record.unfinished
        said: list[str] = []
        again = measured(url, place, replace(what, budget_seconds=3), said)
    assert said[0].startswith("going on with the run of ")
    assert len(again.cells) > len(record.cells)


@pytest.mark.slow
def test_the_first_stands_around_the_others_and_one_that_falls_is_left_out(url: str, place: DeploymentDir):
    """a, b, c, a: each start once, and c cannot be started."""
    entered: list[str] = []

    def falling() -> None:
        entered.append("c")
        raise SubjectFailedError("no such draft")

    target = LoadTarget(url, "scheduled", "chat")
    first = KnownEndpoint(target, name="as it is", enter=lambda: entered.append("a"))
    other = KnownEndpoint(target, name="with b", enter=lambda: entered.append("b"))
    shape = Shape(prompt_tokens=32, output_tokens=4, concurrency=1, requests=1)
    wanted = SweepRequest(workload("short"), (shape,), repeats=4, around=True)
    record = bench([first, other, replace(other, name="with c", enter=falling)], wanted, place, test=False)
    assert [(cell.subject, cell.repeat) for cell in record.cells] == [
        ("a", 1), ("a", 2), ("b", 1), ("b", 2), ("b", 3), ("b", 4), ("a", 3), ("a", 4),
    ]  # fmt: skip
    assert entered == ["a", "b", "c", "a"]
    assert [left_out.reason for left_out in record.skipped] == ["c fell: no such draft"]
    assert record.subjects == {"a": "as it is", "b": "with b", "c": "with c"}


@pytest.mark.slow
def test_starts_take_what_they_take_and_none_of_the_budget(
    url: str, place: DeploymentDir, monkeypatch: pytest.MonkeyPatch
):
    """Each start takes longer than all of the measuring may."""
    started: list[float] = []
    clock = SimpleNamespace(monotonic=lambda: time.monotonic() + sum(started))
    monkeypatch.setattr("upright.proof.benchmark.sweep.time", clock)
    target = LoadTarget(url, "scheduled", "chat")
    shape = Shape(prompt_tokens=32, output_tokens=4, concurrency=1, requests=4)
    known = [KnownEndpoint(target, name=name, enter=lambda: started.append(900)) for name in "ab"]
    wanted = SweepRequest(workload("short"), (shape,), repeats=2, budget_seconds=600)
    record = bench(known, wanted, place, test=False)
    assert [(cell.subject, cell.succeeded) for cell in record.cells] == [("a", 4), ("b", 4), ("b", 4), ("a", 4)]
    assert not record.skipped


@pytest.mark.timing
def test_the_knee_is_where_the_slots_are(place: DeploymentDir):
    with scheduled(command(Schedule(ttft_seconds=0.02, itl_seconds=0.02, slots=4))) as url:
        record = measured(url, place, asked("knee", concurrency=(1, 2, 4, 8, 16), repeats=1))
    assert record.finding.startswith("the knee is at 4 at once")
    assert [cell.shape.concurrency for cell in record.cells] == [1, 2, 4, 8]


@pytest.mark.slow
def test_a_matrix_is_bounded_by_the_cache(url: str, place: DeploymentDir):
    row = workload("matrix").model_copy(update={"contexts": (64, 512), "concurrency": (1, 8), "output_tokens": 4})
    known = KnownEndpoint(LoadTarget(url, "scheduled"), "scheduled", pool_tokens=1000)
    record = bench([known], SweepRequest(row, tuple(row.shapes()), budget_seconds=600), place, test=False)
    assert [(cell.shape.prompt_tokens, cell.shape.concurrency) for cell in record.cells] == [(64, 1), (64, 8), (512, 1)]
    assert [item.reason for item in record.skipped] == [
        "8 x 516 = 4,128 tokens, and the cache holds 1,000: requests would wait"
    ]


def test_a_run_that_was_killed_goes_on(upright: Upright, url: str, tmp_path: Path):
    words = ["bench", "--base-url", url, "--model", "scheduled", "--workload", "short", "--concurrency", "1,2,4"]
    words += ["--output-tokens", "20", "--requests", "8", "--repeats", "2", "--no-self-test", "--json"]
    environment = {**os.environ, "UPRIGHT_HOME": str(tmp_path / "home")}
    argv = [sys.executable, "-m", "upright", *words]
    first = subprocess.Popen(argv, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    log = None
    while log is None or log.read_bytes().count(b'"record":"cell"') < 2:
        assert first.poll() is None
        time.sleep(0.02)
        log = next((tmp_path / "home/benchmarks").glob("*/evidence.jsonl"), None) if log is None else log
    first.send_signal(signal.SIGKILL)
    first.wait()
    there = log.read_bytes().count(b'"record":"cell"')
    done = upright(*words)
    assert done.returncode == 0, done.stderr
    assert f"{there} cells are there" in done.stderr
    assert done.stderr.count("(measured before)") == there
    assert done.stderr.splitlines()[-1].startswith("next: upright share report ")
    assert len(json.loads(done.stdout)["cells"]) == 6
    cells = list(DeploymentDir(log.parent).entries(Cell))
    assert len({(cell.key, cell.repeat) for cell in cells}) == len(cells) == 6


def test_the_page(upright: Upright, tmp_path: Path):
    """And exit code 1 with the words for it, when requests failed."""
    table = tmp_path / "cells.csv"
    with scheduled(faulty(QUICK, Faults("500", every=9))) as url:
        words = ("--base-url", url, "--model", "scheduled", "--workload", "short", "--concurrency", "2,4")
        more = ("--output-tokens", "10", "--requests", "8", "--repeats", "2", "--no-self-test", "--csv", table)
        done = upright("bench", *words, *more)
    assert done.returncode == 1, done.stderr
    heading = next(line for line in done.stdout.splitlines() if line.startswith("at once"))
    assert " ".join(heading.split()) == "at once output tok/s total peak TTFT TPOT p99 ITL failed"
    assert "requests failed: HTTP 500" in done.stdout
    assert all(len(line) <= 80 for line in done.stdout.splitlines())
    assert len(table.read_text().splitlines()) == 5


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--workload", "shrot"), "no workload named shrot; did you mean short?"),
        (("--workload", "x"), "no workload named x; workloads: short, long,"),
        (("--base-url", "http://127.0.0.1:9"), "--base-url needs the name of a model"),
        (("--base-url", "localhost:9", "--model", "m"), "'localhost:9' is not an address"),
        (("--model", "m"), "--model and --key-file go with --base-url"),
        (("--concurrency", "1,x"), "Invalid value for '--concurrency': '1,x' is not a list of numbers"),
        (("--concurrency", "0,1"), "0 requests at once make no load"),
        (("--budget", "soon"), "'soon' is not a time; write 90s, 30m or 2h"),
        (("--rate", "4"), "--rate cannot be given to knee, which looks for one"),
        ((), "there is no deployment yet; upright up MODEL"),
        (("--base-url", "http://127.0.0.1:9", "--model", "m"), "http://127.0.0.1:9 cannot be reached"),
    ],
)
def test_wrong_words_are_met_with_the_right_ones(
    words: tuple[str, ...], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("UPRIGHT_HOME", str(tmp_path))
    with pytest.raises((UprightError, click.UsageError)) as caught:
        cli.main(["bench", *words], standalone_mode=False)
    error = caught.value
    words = error.format_message() if isinstance(error, click.UsageError) else f"{error.message}; {error.hint}"
    assert said in words


def test_every_workload_is_whole():
    for row in workloads().values():
        assert row.source
        for shape in row.shapes():
            assert shape.prompt_tokens > shape.shared_tokens
            assert (shape.turns > 1) == (shape.turn_tokens > 0)
