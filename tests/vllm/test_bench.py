"""Our load generator on a real vLLM, and beside vLLM's own on the same workload."""

from __future__ import annotations

import os
import statistics
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import httpx2
import pytest

from tests.command import command
from tests.conftest import TINY_MODEL, Upright
from tests.paced import paced_llama_server, paced_vllm
from tests.ports import free_port
from tests.vllm.conftest import CONTEXT, USERS, Standing, answer, stop_all
from upright.engines.facets.bench import Foreign
from upright.facts.records.benchmark import Api, Cell, Shape
from upright.proof.benchmark.bench import subject
from upright.proof.benchmark.cell import CellPlace, measure
from upright.proof.benchmark.drivers.driver import drive
from upright.proof.benchmark.endpoints import KnownEndpoint
from upright.proof.benchmark.load import LoadTarget
from upright.serving.endpoint.metrics import read_metrics

WORDS = ("--workload", "short", "--output-tokens", "64", "--concurrency", "4")
TURNS = 5


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


@dataclass(frozen=True)
class Box:
    upright: Upright
    home: Path


@dataclass(frozen=True)
class Both:
    """The same figures of both generators: means, in tokens a second and seconds."""

    ours: Cell
    theirs: Foreign

    def ratios(self) -> dict[str, float]:
        assert self.ours.failed == 0
        assert self.theirs.errors == {}
        mine = (self.ours.ttft_seconds, self.ours.tpot_seconds)
        other = (self.theirs.ttft, self.theirs.tpot)
        found = {"throughput": self.ours.output_tokens_per_second / self.theirs.output_tokens_per_second}
        for name, one, another in zip(("ttft", "tpot"), mine, other, strict=True):
            assert one is not None
            assert another is not None
            found[name] = one.mean / another.mean
        return found


def agree(box: Box, model: Path, tokenizer: Path, program: Path, api: Api) -> None:
    """Both at once on one engine, four streams each: what disturbs the machine disturbs both in the same steps.

    A step takes as long with a prompt as without, else it is a race whose prompts share one, and the same engine gives
    first tokens after 0.2 or after 0.6 s. The first turn is to warm up, and tells how long their prompts are with the
    chat template; ours are as long.
    """
    words = ("--context", "1k", "--users", "8", "--port", str(free_port()))
    up = answer(box.upright("up", model, *words, "--json"))
    key = (box.home / "deployments" / up["name"] / "key").read_text().strip()
    target = LoadTarget(up["base_url"], up["served_name"], api, key)
    ready = subject(KnownEndpoint(target, name="both"))
    theirs_asks = Shape(prompt_tokens=32, output_tokens=16, concurrency=4, requests=160)
    ours_asks, found = theirs_asks, []
    for turn in range(1 + TURNS):
        with ThreadPoolExecutor(1) as pool:
            call = partial(drive, program=str(program), tokenizer=str(tokenizer), seed=turn)
            theirs = pool.submit(call, "vllm", target, theirs_asks)
            wait_for(target, theirs_asks.concurrency)
            ours = measure(ready, ours_asks, CellPlace(f"both {turn}", "both", 1, turn))
            found.append(Both(ours, theirs.result()[0]))
        prompt = found[-1].theirs.prompt
        assert prompt is not None
        ours_asks = theirs_asks.model_copy(update={"prompt_tokens": round(prompt.mean)})
    ratios = [each.ratios() for each in found[1:]]
    middle = {name: statistics.median(each[name] for each in ratios) for name in ratios[0]}
    print(f"{api}, {ours_asks.prompt_tokens} tokens in, 16 out, ours / theirs: {middle} of {ratios}")
    assert middle == pytest.approx(dict.fromkeys(middle, 1.0), abs=0.03)


def wait_for(target: LoadTarget, running: int) -> None:
    """Until the engine works on so many: theirs has begun."""
    headers = {"Authorization": f"Bearer {target.key}"}
    deadline = time.monotonic() + 120
    with httpx2.Client(base_url=target.base_url, headers=headers, trust_env=False) as client:
        while (read_metrics(client.get("/metrics").text).running or 0) < running:
            assert time.monotonic() < deadline, "it does not begin"
            time.sleep(0.02)


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_it_agrees_with_vllm_bench_serve_on_vllm(vllm_environment: Path, tiny_checkpoint: Path, tmp_path: Path):
    paced = paced_vllm(vllm_environment / "bin/vllm", tmp_path / "bin", step_ms=60, token_ms=0)
    with _box(tmp_path, paced) as box:
        agree(box, tiny_checkpoint, tiny_checkpoint, vllm_environment / "bin/vllm", "completions")


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_it_agrees_with_vllm_bench_serve_on_llama_server(
    vllm_environment: Path, tiny_checkpoint: Path, llama_server: Path, tmp_path: Path
):
    paced = paced_llama_server(llama_server, tmp_path / "bin", step_ms=60, token_ms=0)
    # On connections that it keeps, their client loses a request now and then: llama.cpp has closed them.
    theirs = tmp_path / "vllm"
    theirs.write_text(f'#!/bin/sh\nexec "{vllm_environment}/bin/vllm" "$@" --header Connection=close\n')
    theirs.chmod(0o755)
    with _box(tmp_path, paced) as box:
        # Of llama.cpp's completions their client drops the usage, which comes with the last choice.
        agree(box, TINY_MODEL, tiny_checkpoint, theirs, "chat")


@contextmanager
def _box(folder: Path, engine: Path) -> Iterator[Box]:
    """A machine with this engine on the PATH; what was started there is stopped at the end."""

    def upright(*args: str | Path) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "UPRIGHT_HOME": str(folder / "home"), "NO_COLOR": "1"}
        environment["PATH"] = f"{engine.parent}:{os.environ['PATH']}"
        argv = [*command(), *map(str, args)]
        return subprocess.run(argv, capture_output=True, text=True, env=environment, cwd=folder, check=False)

    try:
        yield Box(upright, folder / "home")
    finally:
        stop_all(upright)
