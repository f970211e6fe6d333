"""Published steps of llama.cpp with all layers on one GPU, dense and with experts, beside what a plan prints.

The constants of a layer were chosen by these runs: this holds them, and foretells nothing of others. What others are
off by is `gpu_errors` of the rows (tests/accuracy/test_speed.py).
"""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from upright.app.cli.main import cli

FILE = Path(__file__).with_name("plain_gpus.csv")
RUNS = list(csv.DictReader(FILE.read_text(encoding="utf-8").splitlines()))


@pytest.mark.parametrize(
    "run", RUNS, ids=lambda run: f"{run['model'].rpartition('/')[2]} {run['gpu']} {run['context']}"
)
def test_a_step_with_all_layers_on_one_gpu_lies_inside(run: dict[str, str]):
    """While every layer was taken for 110 us, these were planned a quarter to a half too slow."""
    argv = ["plan", run["model"], "--box", f"1x-{run['gpu']}", "--engine", "llama.cpp", "--context", run["context"]]
    speed = json.loads(CliRunner().invoke(cli, [*argv, "--json"]).stdout)["plans"][0]["speed"]
    rate = speed["full" if int(run["context"]) > 4096 else "decode"]
    print(f"\nmeasured {run['measured']}, printed {rate['best']} ({rate['low']} to {rate['high']})")
    assert rate["low"] <= float(run["measured"]) <= rate["high"]


def test_a_layer_with_experts_takes_longer_than_one_without():
    """And the page says so."""
    assert {run["kind"] for run in RUNS} == {"dense", "experts"}
    argv = ["plan", "unsloth/gemma-4-26B-A4B-it-GGUF:Q4_K_M", "--box", "1x-rtx-5090", "--engine", "llama.cpp", "--why"]
    assert "us more with 8 experts" in " ".join(CliRunner().invoke(cli, argv).stdout.split())
