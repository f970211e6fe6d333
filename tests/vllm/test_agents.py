"""Coding agents replayed on a real vLLM: a cache with grouped queries, where vLLM on a CPU keeps prefixes.

Of the tiny model's latent cache it keeps none: "MLA is enabled on a non-GPU platform; forcing chunked prefill and
prefix caching to be disabled" (0.32.0, platforms/cpu.py).
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.conftest import Upright
from tests.ports import free_port
from tests.tiny_gqa import write_tiny_gqa
from tests.vllm.conftest import Standing, answer, stop_all
from upright.facts.records.trace import AgentTrace, TraceSession, TraceTurn
from upright.serving.endpoint.metrics import read_metrics

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]
AGENTS = (1, 2, 4)
BLOCK = 16
"""Tokens of a chunk in the trace that vLLM's own tool replays."""
TURNS = tuple(
    TraceTurn(new_tokens=new, output_tokens=output, wait_seconds=wait, kept_tokens=kept)
    for new, output, wait, kept in (
        (1200, 24, 0.0, None),
        (300, 24, 0.2, None),
        (500, 24, 0.1, None),
        (200, 24, 0.0, None),
        (400, 24, 0.1, None),
        (250, 24, 0.0, 900),
        (300, 24, 0.1, None),
        (150, 24, 0.0, None),
    )
)


@pytest.fixture(scope="module")
def grouped(in_home: Callable[[Path], Upright], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standing]:
    folder = tmp_path_factory.mktemp("grouped")
    model, home = write_tiny_gqa(folder / "tiny-qwen"), folder / "home"
    upright = in_home(home)
    try:
        words = ("--context", "4k", "--users", "4", "--port", str(free_port()))
        record = answer(upright("up", model, *words, "--json"))
        key = (home / "deployments" / record["name"] / "key").read_text().strip()
        yield Standing(upright, home, model, record["name"], record["base_url"], key)
    finally:
        stop_all(upright)


def trace_file(folder: Path, sessions: int) -> Path:
    each = TraceSession(shared_tokens=800, turns=TURNS)
    trace = AgentTrace(title="eight turns, one of them compacted", source="a test", sessions=(each,) * sessions)
    (folder / "trace.json").write_text(trace.to_json())
    return folder / "trace.json"


def replayed(grouped: Standing, trace: Path, agents: str) -> list[dict[str, Any]]:
    words = ("--workload", "agents", "--trace", trace, "--concurrency", agents, "--repeats", "1", "--budget", "240s")
    cells: list[dict[str, Any]] = grouped.json("bench", grouped.name, *words, "--no-self-test", "--fresh")["cells"]
    return cells


def test_hits_are_those_that_the_engine_counts(grouped: Standing, tmp_path: Path) -> None:
    cells = replayed(grouped, trace_file(tmp_path, max(AGENTS)), ",".join(map(str, AGENTS)))
    assert [cell["shape"]["concurrency"] for cell in cells] == list(AGENTS)
    for cell in cells:
        print(*cell["notes"], sep="\n")
        assert cell["errors"] == {}
        prompts = sum(cell["samples"]["prompt_tokens"])
        assert cell["engine"]["prompt_tokens"] == prompts
        assert abs(cell["engine"]["cached_tokens"] - cell["cached_tokens"]) <= 0.01 * prompts
        assert cell["cached_tokens"] > 0.4 * prompts


@dataclass(frozen=True)
class Hits:
    """Of a stretch of work, by the engine's own counters."""

    hit: float
    asked: float

    @property
    def rate(self) -> float:
        return self.hit / self.asked


def counted(grouped: Standing) -> Hits:
    text = httpx2.get(f"{grouped.base_url}/metrics", headers=grouped.headers, trust_env=False).text
    found = read_metrics(text)
    assert found.cached_tokens is not None
    assert found.prompt_tokens is not None
    return Hits(found.cached_tokens, found.prompt_tokens)


def timed_trace(cell: dict[str, Any], file: Path) -> None:
    """One agent's turns as `vllm bench serve` replays them: when ours sent them, how long, which chunks are the same.

    Their prompts are made before the first is sent, so what an engine answered never comes back: in its place there
    is other text in the next prompt, and new.
    """
    samples, chunks, fresh, lines = cell["samples"], list[int](), 0, []
    for turn, sent, prompt, output in zip(
        TURNS, samples["sent_us"], samples["prompt_tokens"], samples["output_tokens"], strict=True
    ):
        kept = len(chunks) if turn.kept_tokens is None else turn.kept_tokens // BLOCK
        needed = -(-prompt // BLOCK)
        chunks = chunks[:kept] + list(range(fresh, fresh + max(0, needed - kept)))
        fresh += needed
        lines.append({"timestamp": sent / 1e6, "input_length": prompt, "output_length": output, "hash_ids": chunks})
        chunks = chunks[: prompt // BLOCK]
    file.write_text("".join(f"{json.dumps(line)}\n" for line in lines))


def test_the_same_turns_by_vllms_own_tool(grouped: Standing, vllm_environment: Path, tmp_path: Path) -> None:
    """One agent, sent at the moments of our own replay: lengths equal, hits and first tokens beside ours."""
    before = counted(grouped)
    (cell,) = replayed(grouped, trace_file(tmp_path, 1), "1")
    between = counted(grouped)
    timed_trace(cell, tmp_path / "timed.jsonl")
    argv = [
        vllm_environment / "bin/vllm", "bench", "serve", "--backend", "openai", "--endpoint", "/v1/completions",
        "--base-url", grouped.base_url, "--model", grouped.name, "--tokenizer", grouped.model,
        "--dataset-name", "timed_trace", "--dataset-path", tmp_path / "timed.jsonl",
        "--timed-trace-chunk-hash-size", BLOCK, "--num-prompts", len(TURNS), "--ignore-eos", "--disable-tqdm",
        "--save-result", "--save-detailed", "--result-dir", tmp_path, "--result-filename", "theirs.json",
        "--num-warmups", 0, "--ready-check-timeout-sec", 0,
    ]  # fmt: skip
    environment = {**os.environ, "OPENAI_API_KEY": grouped.key, "PYTHONHASHSEED": "0"}
    done = subprocess.run(
        list(map(str, argv)), capture_output=True, text=True, env=environment, timeout=600, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    after = counted(grouped)
    theirs = json.loads((tmp_path / "theirs.json").read_text())
    assert theirs["completed"] == len(TURNS)
    assert theirs["input_lens"] == cell["samples"]["prompt_tokens"]
    assert theirs["output_lens"] == cell["samples"]["output_tokens"]
    ours_hits = Hits(between.hit - before.hit, between.asked - before.asked)
    their_hits = Hits(after.hit - between.hit, after.asked - between.asked)
    samples = cell["samples"]
    firsts = [(first - sent) / 1e6 for sent, first in zip(samples["sent_us"], samples["first_us"], strict=True)]
    print(f"hits: ours {ours_hits.rate:.1%}, theirs {their_hits.rate:.1%}")
    print(f"median TTFT: ours {statistics.median(firsts):.3f} s, theirs {statistics.median(theirs['ttfts']):.3f} s")
    print("TTFT by turn:", *(f"{a:.2f}/{b:.2f}" for a, b in zip(firsts, theirs["ttfts"], strict=True)))
    answers = sum(samples["output_tokens"]) / sum(samples["prompt_tokens"])
    assert their_hits.rate == pytest.approx(
        ours_hits.rate, abs=answers + 128 * len(TURNS) / sum(samples["prompt_tokens"])
    )


def test_system_ram_behind_the_cache_is_refused_by_vllm_itself(
    grouped: Standing, vllm_environment: Path, tmp_path: Path
) -> None:
    """Why `--host-cache` plans no tier for vLLM on a CPU: the engine's own words."""
    planned = grouped.upright("plan", grouped.model, "--engine", "vllm", "--context", "4k", "--host-cache", "1GB")
    assert "KV offloading runs on GPUs only" in planned.stdout
    argv = [
        vllm_environment / "bin/vllm", "serve", grouped.model, "--port", free_port(), "--max-model-len", 2048,
        "--kv-cache-memory-bytes", 16908288, "--enforce-eager", "--kv-offloading-size", 1,
    ]  # fmt: skip
    done = subprocess.run(list(map(str, argv)), capture_output=True, text=True, timeout=400, check=False, cwd=tmp_path)
    assert done.returncode != 0
    assert "CPU Offloading is currently only supported on CUDA-alike and XPU GPUs" in done.stdout + done.stderr
