"""The commands that a page names make the same cells again."""

from __future__ import annotations

import shlex
from types import SimpleNamespace
from typing import Any

import pytest

from tests.scripted.cells import cell
from upright.app.cli.bench import command
from upright.evidence.report.page import tiles
from upright.evidence.report.reproduction import bench_command, reproduction_commands
from upright.facts.records.benchmark import Benchmark
from upright.proof.benchmark.sweep import SweepRequest, sweep_request
from upright.proof.benchmark.workload import workload


def asked(words: list[str]) -> SweepRequest:
    given = dict(command.make_context("bench", list(words)).params)
    names = (
        "workload", "concurrency", "prompt_tokens", "output_tokens", "requests", "rate", "repeats", "budget", "ttft",
        "tpot", "seed", "fresh", "api",
    )  # fmt: skip
    return sweep_request(**{name: given[name] for name in names})


def benchmark(cells: list[Any], **more: Any) -> Benchmark:
    told: dict[str, Any] = {
        "run": "r", "title": "kimi", "workload": "short", "about": "", "deployment": "kimi", "model": "m",
        "engine": None, "engine_version": None, "base_url": None, "at": "", "seed": 0, "repeats": 3,
        "self_test": None, "cells": tuple(cells),
    }  # fmt: skip
    return Benchmark(**{**told, **more})


@pytest.mark.parametrize(
    "words",
    [
        "--workload short",
        "--workload short --concurrency 1,2 --prompt-tokens 96 --output-tokens 16 --requests 4 --repeats 2",
        "--workload long --rate 2.5 --seed 7 --api messages",
        "--workload matrix",
        "--workload matrix --prompt-tokens 4096",
        "--workload agent --output-tokens 64",
        "--workload knee --prompt-tokens 1000",
        "--workload goodput --concurrency 8",
        "--workload agents --concurrency 1,8",
    ],
)
def test_the_command_of_a_benchmark_asks_for_the_same(words: str):
    first = asked(words.split())
    api = "messages" if "messages" in words else "chat"
    cells = [cell("a", 1, 1, 50).model_copy(update={"shape": shape, "api": api}) for shape in first.shapes]
    about = workload(first.workload.name).about if first.workload.trace else ""
    record = benchmark(cells, workload=first.workload.name, about=about, repeats=first.repeats, seed=first.seed)
    line = bench_command("kimi", record)
    again = asked(shlex.split(line, comments=True)[2:])
    assert (again.shapes, again.repeats, again.seed) == (first.shapes, first.repeats, first.seed), line
    assert ("--api messages" in line) == (api == "messages")


def test_what_a_record_does_not_know_is_said():
    cells = [cell("a", 32, 1, 50)]
    names = {"a": "kimi as it is", "b": "kimi with --max-num-seqs 8"}
    assert bench_command("kimi", benchmark(cells, subjects=names)).endswith(
        " --against RECIPE.yaml  # RECIPE.yaml: kimi with --max-num-seqs 8"
    )
    assert bench_command("kimi", benchmark(cells, subjects={"a": "kimi", "b": "other"})).endswith(" --against other")
    assert "--workload short --with vllm " in bench_command("kimi", benchmark(cells, workload="short with vllm"))
    assert bench_command("kimi", benchmark(cells, workload="agents", about="mine (agent-trace 0a)")).endswith(
        " --trace TRACE.json  # TRACE.json: mine (agent-trace 0a)"
    )
    assert bench_command("kimi", benchmark(cells, workload="goodput", finding="up to 4")).endswith(
        "  # the promise by --ttft and --tpot: up to 4"
    )


def subject(*benchmarks: Benchmark, **more: Any) -> Any:
    told = {
        "plan": SimpleNamespace(context_tokens=2048, goal=SimpleNamespace(users=1)),
        "recipe": SimpleNamespace(model_path="my models/k.gguf", context_tokens=2048, port=8000, digest="d"),
        "deployment": SimpleNamespace(name="kimi", ready_seconds=None),
        "evidence": None, "proof": None, "speculation": None, "benchmarks": benchmarks,
    }  # fmt: skip
    return SimpleNamespace(**{**told, **more})


def test_a_path_is_one_word():
    first, *_ = reproduction_commands(subject())
    assert shlex.split(first)[2] == "my models/k.gguf"


def test_headlines_are_means_of_clean_repeats_and_name_what_was_asked():
    short = [cell("a", streams, repeat, 100.0 * streams + repeat) for streams in (1, 8) for repeat in (1, 2, 3)]
    short += [cell("a", 8, 4, 5000.0, marks=("4 of 8 requests failed",))]
    long = [one.model_copy(update={"shape": one.shape.model_copy(update={"prompt_tokens": 8192})}) for one in short[:3]]
    slower = [cell("a", 1, repeat, 20.0).model_copy(update={"shape": one.shape}) for repeat, one in enumerate(long, 1)]
    found = [(tile.value, tile.words) for tile in tiles(subject(benchmark([*short, *slower])))]
    assert found[1:] == [
        ("802 ±2", "output tokens a second: 256 in, 100 out, 8 at once"),
        ("20 to 102", "tokens a second for one user alone: 256 to 8,192 in"),
    ]
