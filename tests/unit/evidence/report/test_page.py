"""The page says what the records say, safely, with its charts."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import pytest

from tests.scripted.cells import cell
from upright.evidence.report import cells_csv, markdown, report
from upright.evidence.report.markdown import attempt_rows
from upright.evidence.report.page import verdict
from upright.evidence.report.speculation import candidate_rows
from upright.facts.records.benchmark import Benchmark, Shape
from upright.facts.records.diagnosis import Attempt, Attempts, Remedy
from upright.facts.records.evidence import Evidence, Observation
from upright.facts.records.speculation import Expectation, Factor, Speculation, SpeculationCell, Tried


def benchmark(title: str, gain: float, *, hostile: str = "") -> Benchmark:
    cells = [
        cell("a", streams, repeat, 50 * streams * gain + repeat, run=title, marks=("queued",) if streams == 8 else ())
        for streams in (1, 2, 4, 8)
        for repeat in (1, 2, 3)
    ]
    return Benchmark(
        run=title, title=title + hostile, workload="short", about="256 in", deployment=None, model="m", engine=None,
        engine_version=None, base_url=None, at="", seed=0, repeats=3, self_test=None, cells=tuple(cells),
    )  # fmt: skip


def test_one_benchmark_has_its_charts_and_its_marks():
    page = report(benchmark("one", 1))
    assert page.startswith("<!doctype html>")
    assert page.count("<svg") == 4
    assert "8 at once: queued" in page
    assert 'class="marked"' in page


def test_two_are_compared_in_words():
    page = report(benchmark("slow", 1), benchmark("fast", 1.5))
    assert "fast is better in 9 of 9 comparisons, and worse in none." in page
    assert "slow against fast" in page
    assert "**fast is better in 9 of 9 comparisons" in markdown(benchmark("slow", 1), benchmark("fast", 1.5))


@pytest.mark.parametrize(
    ("first", "second", "names"),
    [
        ("2026-11-14T10:00:00", "2026-11-15T10:00:00", "kimi (2026-11-14) against kimi (2026-11-15)"),
        ("2026-11-15T10:00:00", "2026-11-15T11:30:00", "kimi (2026-11-15 10:00) against kimi (2026-11-15 11:30)"),
        ("", "", "kimi (no. 1) against kimi (no. 2)"),
    ],
)
def test_two_occasions_of_one_deployment_are_compared(first: str, second: str, names: str):
    before, after = benchmark("kimi", 1), benchmark("kimi", 1.5)
    pair = before.model_copy(update={"at": first}), after.model_copy(update={"at": second})
    assert names in report(*pair)
    said = f"**{names.rpartition(' against ')[2]} is better in 9 of 9 comparisons"
    assert said in markdown(*pair)
    assert "Which is better" not in markdown(pair[0], pair[0]), "one is not compared with itself"


def test_the_page_fetches_nothing_and_runs_nothing():
    page = report(benchmark("slow", 1), benchmark("fast", 1.5))
    assert not re.search(r"(src|href)=|url\(|@import|https?://|<script", page)
    assert len(page.encode()) < 1_500_000


def test_hostile_names_stay_text():
    words = "<script>alert(1)</script>|x"
    page, text = report(benchmark("one", 1, hostile=words)), markdown(benchmark("one", 1, hostile=words))
    assert "<script" not in page
    assert "<script" not in text


def test_the_csv_has_every_cell_with_its_marks():
    lines = cells_csv([benchmark("one", 1)]).splitlines()
    assert len(lines) == 13
    assert lines[0].startswith("benchmark,workload,run,subject,repeat,at,api,prompt_tokens")
    assert [line.endswith(",queued") for line in lines[1:]] == [False] * 9 + [True] * 3


def test_guessing_ahead_is_told_cell_by_cell():
    """Rows, chart and sentences of a trial, as the page and the terminal show them."""
    shape = Shape(prompt_tokens=8192, output_tokens=128, concurrency=4, requests=8)
    theirs = Expectation(factor=1.41, what="Kimi", context_tokens=0, concurrency=4, rows=("m025", "m003"), source="x")
    cell = SpeculationCell(
        shape=shape, verdict="wins", reason="", base_tokens_per_second=100.0, tokens_per_second=132.0,
        output=Factor(factor=1.32, low=1.28, high=1.36), pairs=4, acceptance=0.6, published=theirs,
    )  # fmt: skip
    tried = Tried(
        name="eagle3 head, 3 guesses", way="eagle3=head", method="eagle3", settings=(), recipe="recipe:b",
        outcome="kept", reason="it wins", answers=42, answers_alike=41, drafted_tokens=1000, acceptance=0.5,
        acceptance_at=(0.65, 0.4, 0.25), cells=(cell,), notes=("the cache holds less",),
    )  # fmt: skip
    fell = tried.model_copy(update={"outcome": "fell", "cells": (), "answers": 0, "drafted_tokens": None, "notes": ()})
    record = Speculation(
        deployment="d", engine="vllm", engine_version=None, at="", context_tokens=8192, users=4, asked="Count.",
        run="r", base="recipe:a", base_speculates=None, base_pool_tokens=None, base_cache_bytes=None,
        tried=(tried, fell), recommendation="Keep it.", runs="recipe:b",
    )  # fmt: skip
    first, second = candidate_rows(record)
    assert first.headings == ("cell", "without", "with", "difference", "held", "published", "verdict")
    assert first.rows == [("8,192x4", "100", "132", "+32.0 % (+28.0 to +36.0)", "60 %", "+41 %", "wins")]
    assert first.notes == [
        "answers: 41 of 42 word for word as without it, the others as right",
        "guesses: 50 % of 1,000 held; by position 0.65 / 0.40 / 0.25",
        "the cache holds less",
        "published: Kimi (m025/m003)",
    ]
    assert first.chart is not None
    assert (second.rows, second.notes, second.chart) == ([], [], None)


@pytest.mark.parametrize(
    ("seen", "words"),
    [
        (
            [("boot", "passed"), ("context", "skipped"), ("context", "skipped"), ("clients", "unsupported")],
            "It stands: 1 of 4 checks passed, the last of them in boot; 1 unsupported, 2 skipped",
        ),
        (
            [("boot", "passed"), ("clients", "passed")],
            "It stands: 2 of 2 checks passed, the last of them in clients",
        ),
    ],
)
def test_the_verdict_claims_no_more_than_was_seen(seen: list[tuple[str, str]], words: str):
    """What the budget left out was not passed, and `--only clients` climbed nothing between boot and clients."""
    frame: dict[str, Any] = {"check": "x", "reason": "", "at": "", "seconds": 0, "request": {}, "response": None}
    items = [Observation.model_validate({**frame, "rung": rung, "verdict": found}) for rung, found in seen]
    evidence = Evidence(
        deployment="d", engine=None, engine_version=None, to_rung="clients", observations=tuple(items)
    )  # fmt: skip
    subject: Any = SimpleNamespace(proof=evidence)
    assert verdict(subject) == ("passed", words)


def test_attempts_are_a_timeline():
    """Each try: what was changed, what came of it, the line that ended it, how long it took."""
    fell = Attempt(
        number=1, at="2026-11-18T10:00:00+00:00", engine="vllm", recipe="recipe:a", result="failed",
        code="triton-shared-memory", said="Required: 106496, Hardware limit: 101376", seconds=312.0,
    )  # fmt: skip
    change = Remedy(do="set_flag", name="--kv-cache-dtype", value="bfloat16", why="its kernel fits")
    stood = fell.model_copy(update={"number": 2, "change": change, "result": "ready", "code": None, "said": ""})
    assert attempt_rows(Attempts(name="d", attempts=(fell, stood))) == [
        (
            "1", "2026-11-18 10:00:00", "", "failed",
            "triton-shared-memory Required: 106496, Hardware limit: 101376", "5 min 12 s",
        ),
        ("2", "2026-11-18 10:00:00", "set --kv-cache-dtype bfloat16: its kernel fits", "ready", "", "5 min 12 s"),
    ]  # fmt: skip
