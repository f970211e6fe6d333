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
from tests.vllm.conftest import CONTEXT, USERS, Standing, answer, free_port, stop_all

WORDS = ("--workload", "short", "--output-tokens", "64", "--concurrency", "4")
METRICS = ("output_tokens_per_second", "ttft_seconds", "tpot_seconds")


def test_a_cell_says_what_vllm_says(standing: Standing):
    words = ("--prompt-tokens", "128", "--repeats", "1", "--requests", "8", "--budget", "60s", "--no-self-test")
    (cell,) = standing.json("bench", standing.name, *WORDS, *words)["cells"]
    assert cell["errors"] == {}
    assert cell["prompt_tokens"]["mean"] == 128
    assert cell["output_tokens"]["mean"] == 64
    assert cell["engine"]["output_tokens"] == 8 * 64
    assert cell["engine"]["prompt_tokens"] == 8 * 128
    assert cell["engine"]["kv_pool_tokens"] >= CONTEXT * USERS
    assert cell["in_flight_peak"] == 4


def figures(cell: dict[str, Any]) -> list[float]:
    return [cell[name] if name == METRICS[0] else cell[name]["mean"] for name in METRICS]


def agree(upright: Upright, name: str, tokenizer: Path, program: Path, api: str) -> None:
    """Ours and theirs in turns, seven times, each turn the other one first: the medians of the pairs' ratios are
    within 3 %. What theirs asks for grows by the chat template, so ours asks for as much as the server counted."""
    more = ("--api", api, "--requests", "96", "--repeats", "1", "--no-self-test", "--json")
    by_them = ("--with", "vllm", "--program", program, "--tokenizer", tokenizer)

    def cell(prompt_tokens: int, seed: int, *others: str | Path) -> dict[str, Any]:
        words = (*WORDS, "--prompt-tokens", str(prompt_tokens), "--seed", str(seed), *more, *others)
        (found,) = answer(upright("bench", name, *words))["cells"]
        return dict(found)

    counted = round(cell(128, 0, *by_them)["prompt_tokens"]["mean"])
    pairs = []
    for turn in range(1, 8):
        ours = [figures(cell(counted, turn))] if turn % 2 else []
        theirs = figures(cell(128, turn, *by_them))
        ours = ours or [figures(cell(counted, turn))]
        pairs.append([one / other for one, other in zip(ours[0], theirs, strict=True)])
    found = {metric: statistics.median(pair[place] for pair in pairs) for place, metric in enumerate(METRICS)}
    print(f"{name}, {counted} tokens in, 64 out: ours / theirs {found}, pairs {pairs}")
    assert found == pytest.approx(dict.fromkeys(METRICS, 1.0), abs=0.03)


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_it_agrees_with_vllm_bench_serve_on_vllm(standing: Standing, vllm_environment: Path):
    agree(standing.upright, standing.name, standing.model, vllm_environment / "bin/vllm", "completions")


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
        # Guard: of llama.cpp's completions that client drops the usage, which comes with the last choice
        agree(upright, up["name"], tiny_checkpoint, vllm_environment / "bin/vllm", "chat")
    finally:
        stop_all(upright)
