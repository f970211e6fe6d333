"""Plan what to measure, measure it, fit, and hold other cells against the band: on a real llama-server.

The engine computes with one thread, so that the load has a core of its own where there are two. A step is the median
gap between two tokens, as for the fit: the mean has the prompts of others in it, which a plan for a processor does not
count.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Upright
from tests.ports import free_port

pytestmark = [pytest.mark.engine, pytest.mark.timing, pytest.mark.slow]
# Neither the lengths nor the pairs that are fitted on.
HELD_OUT = (500, 1500, 3000)
USERS = (1, 2, 4)
ONE_THREAD = {"LLAMA_ARG_THREADS": "1", "LLAMA_ARG_THREADS_BATCH": "1"}


@pytest.fixture
def box(upright: Upright, llama_server: Path) -> Iterator[Upright]:
    def run(*args: str | Path, **more: Any) -> subprocess.CompletedProcess[str]:
        return upright(*args, PATH=f"{llama_server.parent}:{os.environ['PATH']}", **more)

    yield run
    for item in json.loads(run("ps", "--json").stdout):
        run("down", item["name"])


def answer(done: subprocess.CompletedProcess[str], code: int = 0) -> Any:
    assert done.returncode == code, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    return json.loads(done.stdout)


def test_cells_that_were_not_measured_lie_in_the_band_of_those_that_were(box: Upright, tiny_model: Path):
    answer(box("probe", "--measure", "--json"))
    up = answer(
        box("up", tiny_model, "--context", "4k", "--users", "4", "--port", str(free_port()), "--json", **ONE_THREAD)
    )
    cells = answer(box("calibrate", "--plan", "--budget", "2m", "--json"))["cells"]
    assert {cell["users"] for cell in cells} == set(USERS)
    assert len(cells) >= 6
    measured = answer(box("bench", up["name"], "--workload", "calibrate", "--budget", "2m", "--json"))
    asked = {(cell["shape"]["concurrency"], cell["shape"]["prompt_tokens"]) for cell in measured["cells"]}
    assert asked == {(cell["users"], cell["prompt_tokens"]) for cell in cells}
    calibrated = answer(box("calibrate", "--json"))
    assert calibrated["row"]["errors"]["median"] < 0.1 * calibrated["before"]["median"]
    judged = inside = 0
    for prompt in HELD_OUT:
        options = ("--concurrency", "1,2,4", "--prompt-tokens", f"{prompt}", "--output-tokens", "128", "--repeats", "1")
        held_out = answer(box("bench", up["name"], "--workload", "short", *options, "--no-self-test", "--json"))
        for cell in held_out["cells"]:
            users = cell["shape"]["concurrency"]
            load = ("--context", f"{prompt + 64}", "--users", f"{users}")
            (plan,) = answer(box("plan", tiny_model, *load, "--engine", "llama.cpp", "--json"))["plans"][:1]
            assert plan["speed"]["row"] == calibrated["row"]["id"]
            assert plan["speed"]["basis"] == "measured"
            seen, band = 1 / cell["itl_seconds"]["p50"], plan["speed"]["full"]
            print(f"\n{users} x {prompt}: {seen:.0f} tok/s, planned {band['low']:.0f} to {band['high']:.0f}")
            judged, inside = judged + 1, inside + (band["low"] <= seen <= band["high"])
    assert judged == len(HELD_OUT) * len(USERS)
    assert inside / judged >= 0.75
