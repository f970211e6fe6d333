"""Our load generator on a real vLLM, and beside vLLM's own on the same workload."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT, TINY_MODEL, Upright
from tests.vllm.conftest import Standing, answer, free_port, stop_all

WORDS = ("--workload", "short", "--prompt-tokens", "128", "--output-tokens", "64", "--concurrency", "4")
METRICS = ("output_tokens_per_second", "ttft_seconds", "tpot_seconds")


def test_a_cell_says_what_vllm_says(standing: Standing):
    words = ("--repeats", "1", "--requests", "8", "--budget", "60s", "--no-self-test")
    (cell,) = standing.json("bench", standing.name, *WORDS, *words)["cells"]
    assert cell["errors"] == {}
    assert cell["prompt_tokens"]["mean"] == 128
    assert cell["output_tokens"]["mean"] == 64
    assert cell["engine"]["output_tokens"] == 8 * 64
    assert cell["engine"]["prompt_tokens"] == 8 * 128
    assert cell["engine"]["kv_pool_tokens"] > 10_000
    assert cell["in_flight_peak"] == 4


def figures(cell: dict[str, Any]) -> list[float]:
    return [cell[name] if name == METRICS[0] else cell[name]["mean"] for name in METRICS]


def agree(upright: Upright, name: str, tokenizer: Path, program: Path) -> None:
    """Ours and theirs in turns, five times: the medians of the pairs' ratios are within 3 %."""
    words = ("bench", name, *WORDS, "--api", "completions", "--requests", "96", "--repeats", "1", "--json")
    pairs = []
    for turn in range(5):
        both = {}
        for who in ("ours", "theirs") if turn % 2 else ("theirs", "ours"):
            more = () if who == "ours" else ("--with", "vllm", "--program", program, "--tokenizer", tokenizer)
            last = ("--no-self-test", "--seed", str(turn))
            both[who] = figures(answer(upright(*words, *last, *more))["cells"][0])
        pairs.append([ours / theirs for ours, theirs in zip(both["ours"], both["theirs"], strict=True)])
    found = {metric: statistics.median(pair[place] for pair in pairs) for place, metric in enumerate(METRICS)}
    print(f"{name}: ours / theirs {found}, pairs {pairs}")
    assert found == pytest.approx(dict.fromkeys(METRICS, 1.0), abs=0.03)


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_it_agrees_with_vllm_bench_serve_on_vllm(standing: Standing, vllm_environment: Path):
    agree(standing.upright, standing.name, standing.model, vllm_environment / "bin/vllm")


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_it_agrees_with_vllm_bench_serve_on_llama_server(
    vllm_environment: Path, tiny_checkpoint: Path, llama_server: Path, tmp_path: Path
):
    def upright(*args: str | Path) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "UPRIGHT_HOME": str(tmp_path / "home"), "NO_COLOR": "1"}
        environment["PATH"] = f"{llama_server.parent}:{os.environ['PATH']}"
        argv = [sys.executable, "-m", "upright", *map(str, args)]
        return subprocess.run(argv, capture_output=True, text=True, env=environment, cwd=ROOT, check=False)

    try:
        up = answer(upright("up", TINY_MODEL, "--context", "1k", "--users", "4", "--port", str(free_port()), "--json"))
        agree(upright, up["name"], tiny_checkpoint, vllm_environment / "bin/vllm")
    finally:
        stop_all(upright)
