"""Plan what to measure, measure it, fit, and hold other cells against the band: on a real llama-server."""

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

pytestmark = [pytest.mark.engine, pytest.mark.timing]
SETTING = ("--context", "2k", "--users", "2")
# Neither the lengths nor the pairs that are fitted on.
HELD_OUT = ((1, 500), (1, 900), (1, 1400), (2, 400), (2, 700), (2, 1200))


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
    up = answer(box("up", tiny_model, *SETTING, "--port", str(free_port()), "--json"))
    cells = answer(box("calibrate", "--plan", "--budget", "30s", "--json"))["cells"]
    assert {cell["users"] for cell in cells} == {1, 2}
    measured = answer(
        box("bench", up["name"], "--workload", "calibrate", "--repeats", "1", "--budget", "30s", "--json")
    )
    asked = {(cell["shape"]["concurrency"], cell["shape"]["prompt_tokens"]) for cell in measured["cells"]}
    assert asked == {(cell["users"], cell["prompt_tokens"]) for cell in cells}
    row = answer(box("calibrate", "--json"))["row"]
    inside = 0
    for users, prompt in HELD_OUT:
        cell = answer(
            box("bench", up["name"], "--workload", "short", "--concurrency", str(users), "--prompt-tokens", str(prompt),
                "--output-tokens", "128", "--repeats", "1", "--budget", "20s", "--no-self-test", "--json")
        )["cells"][0]  # fmt: skip
        plan = answer(box("plan", tiny_model, "--context", str(prompt + 128), "--users", str(users), "--json"))[
            "plans"
        ][0]
        assert plan["speed"]["row"] == row["id"]
        assert plan["speed"]["basis"] == "measured"
        seen, band = 1 / cell["tpot_seconds"]["mean"], plan["speed"]["full"]
        print(f"{users} x {prompt}: {seen:.0f} tok/s, planned {band['low']:.0f} to {band['high']:.0f}")
        inside += band["low"] <= seen <= band["high"]
    assert inside >= 5
