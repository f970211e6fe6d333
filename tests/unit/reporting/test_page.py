"""The page says what the records say, safely, with charts or without."""

from __future__ import annotations

import re
import sys

import pytest

from tests.scripted.cells import cell
from upright.records.benchmark import Benchmark
from upright.reporting import cells_csv, markdown, report


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


def test_the_page_fetches_nothing_and_runs_nothing():
    page = report(benchmark("slow", 1), benchmark("fast", 1.5))
    assert not re.search(r"(src|href)=|url\(|@import|https?://|<script", page)
    assert len(page.encode()) < 1_500_000


def test_hostile_names_stay_text():
    words = "<script>alert(1)</script>|x"
    page, text = report(benchmark("one", 1, hostile=words)), markdown(benchmark("one", 1, hostile=words))
    assert "<script" not in page
    assert "<script" not in text


def test_without_the_extra_there_are_tables(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    page = report(benchmark("one", 1))
    assert "<svg" not in page
    assert "pip install 'upright[report]'" in page
    assert page.count("<tr") == 5


def test_the_csv_has_every_cell_with_its_marks():
    lines = cells_csv([benchmark("one", 1)]).splitlines()
    assert len(lines) == 13
    assert lines[0].startswith("benchmark,workload,run,subject,repeat,at,api,prompt_tokens")
    assert [line.endswith(",queued") for line in lines[1:]] == [False] * 9 + [True] * 3
