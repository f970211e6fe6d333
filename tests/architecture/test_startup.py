"""`upright --help` against the interpreter's own start, side by side in one run."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

pytestmark = pytest.mark.timing
LIMIT = 8


def test_help_takes_at_most_eight_times_the_interpreters_start(capsys):
    bare, helping = [sys.executable, "-c", "pass"], [sys.executable, "-m", "upright", "--help"]
    timings: dict[str, list[float]] = {"bare": [], "help": []}
    for _ in range(15):  # interleaved, so that a busy machine slows both
        timings["bare"].append(seconds(bare))
        timings["help"].append(seconds(helping))
    ratio = min(timings["help"]) / min(timings["bare"])
    with capsys.disabled():
        print(f"\nupright --help: {ratio:.1f}x of `python -c pass` (limit {LIMIT}x)")
    assert ratio <= LIMIT


def seconds(argv: list[str]) -> float:
    began = time.perf_counter()
    subprocess.run(argv, capture_output=True, check=True)
    return time.perf_counter() - began
