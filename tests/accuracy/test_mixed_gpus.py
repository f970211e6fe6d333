"""Boxes of different GPUs that their owners measured, beside what a plan prints. No constant was fitted on them."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from upright import plan

RUNS = list(csv.DictReader(Path(__file__).with_name("mixed_gpus.csv").read_text(encoding="utf-8").splitlines()))


@pytest.mark.parametrize("run", RUNS, ids=lambda run: f"{run['box']} {run['measured']}")
def test_what_an_owner_measured_lies_where_the_page_says(run: dict[str, str]) -> None:
    best = plan(run["model"], run["box"], engine="llama.cpp", context_tokens=int(run["context"]))[0]
    assert best.speed is not None
    rate = best.speed.decode
    print(f"\nmeasured {run['measured']}, planned {rate.best} ({rate.low} to {rate.high})")
    assert (rate.low <= float(run["measured"]) <= rate.high) == (run["inside"] == "yes")


def test_small_models_leave_the_slow_cards_idle_as_their_owner_found() -> None:
    """Qwen3-8B and 14B went from 48 to 82 and from 28 to 48 tok/s once the 3060s were hidden."""
    assert plan("gpt-oss-20b", "1x-rtx-3090+2x-rtx-3060", engine="llama.cpp", context_tokens=8192)[0].gpus == (0,)
