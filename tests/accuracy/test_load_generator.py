"""The generator's clocks against a server that keeps its own: what it measures is what the server did."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from dataclasses import dataclass

import httpx2
import pytest

from tests.conftest import ROOT
from upright.facts.records.benchmark import Shape
from upright.facts.records.spreads import spread_of
from upright.proof.benchmark.drivers import drive
from upright.proof.benchmark.load import Arrivals, LoadTarget, run
from upright.proof.benchmark.scheduled_server import Schedule, command
from upright.proof.benchmark.selftest import Repeated, scheduled

TTFT_SECONDS = 0.2
PROMPT = "one two three four " * 64


@dataclass(frozen=True)
class Case:
    """A load, and how far the mean time to first token may be off."""

    streams: int
    requests: int
    tokens: int
    itl_seconds: float
    ttft_limit_seconds: float
    ramp_seconds: float = 0.0


SMALL = [Case(1, 2, 40, 0.05, 0.004), Case(32, 64, 60, 0.05, 0.004)]
LARGE = [
    Case(256, 256, 100, 0.05, 0.03, 0.25),
    Case(1024, 1024, 100, 0.1, 0.06, 1.0),
    Case(2048, 2048, 50, 0.2, 0.06, 2.0),
]


def check(case: Case) -> None:
    """Within the limit, or within the worst delay that the server itself met meanwhile: both run on one processor, and
    what others take from it is an error of neither. Beyond both it is ours."""
    with scheduled(command(Schedule(TTFT_SECONDS, case.itl_seconds))) as url:
        target = LoadTarget(url, "scheduled")
        source = Repeated(target, case.requests, case.tokens, PROMPT)
        tally, flight = run(target, source, Arrivals(case.streams, ramp_seconds=case.ramp_seconds))
        truth = httpx2.get(f"{url}/record", trust_env=False).json()
    ttft, itl = spread_of(tally.ttft).mean, tally.gaps.total / tally.gaps.count
    rate, lag = sum(tally.output) / tally.seconds, truth["lag_seconds"]
    print(
        f"{case.streams:5} streams: TTFT {1000 * ttft:.1f} ms, server {1000 * truth['ttft_mean']:.1f} (schedule 200);"
        f" ITL {1000 * itl:.2f}, server {1000 * truth['itl_mean']:.2f} (schedule {1000 * case.itl_seconds:g});"
        f" {rate:,.0f} tok/s, server {truth['tokens_per_second']:,.0f}; {truth['peak']} in flight;"
        f" client {flight.cpu_seconds:.2f} CPU s, server late by {1000 * lag:.0f} ms"
    )
    assert (tally.succeeded, dict(tally.errors)) == (case.requests, {})
    assert flight.in_flight_peak == truth["peak"] == case.streams
    assert abs(ttft - truth["ttft_mean"]) <= max(case.ttft_limit_seconds, lag)
    assert abs(itl - truth["itl_mean"]) <= max(0.01 * truth["itl_mean"], lag / (case.tokens - 1))
    assert abs(rate / truth["tokens_per_second"] - 1) <= max(0.01, lag / tally.seconds)


@pytest.mark.timing
@pytest.mark.parametrize("case", SMALL, ids=lambda case: str(case.streams))
def test_what_it_measures_is_what_the_server_did(case: Case):
    check(case)


@pytest.mark.timing
@pytest.mark.slow
@pytest.mark.parametrize("case", LARGE, ids=lambda case: str(case.streams))
def test_what_it_measures_is_what_the_server_did_with_many_streams(case: Case):
    check(case)


MEMORY = """
import resource, sys
from upright.proof.benchmark.load import Arrivals, LoadTarget, run
from upright.proof.benchmark.selftest import Repeated
target = LoadTarget(sys.argv[1], "scheduled")
streams, tokens = int(sys.argv[2]), int(sys.argv[3])
tally, flight = run(target, Repeated(target, streams, tokens), Arrivals(streams, ramp_seconds=1))
assert tally.succeeded == streams, tally.errors
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
"""


@pytest.mark.slow
def test_memory_is_bounded_by_the_streams_and_not_by_the_tokens():
    """2,048 streams: ten times the tokens take the times of the tokens in flight, and nothing else."""

    def held_bytes(streams: int, tokens: int) -> int:
        with scheduled(command(Schedule(TTFT_SECONDS, 0.15))) as url:
            argv = [sys.executable, "-c", MEMORY, url, str(streams), str(tokens)]
            environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
            return int(subprocess.run(argv, capture_output=True, text=True, check=True, env=environment).stdout)

    few, many = held_bytes(2048, 10), held_bytes(2048, 100)
    print(f"{few / 2**20:.0f} MiB with 10 tokens a stream, {many / 2**20:.0f} MiB with 100")
    assert many < 160 * 2**20
    assert many - few < 2048 * 90 * 8 * 4, "8 bytes a token, and room for the way arrays grow"


@pytest.mark.slow
@pytest.mark.timing
@pytest.mark.parametrize("streams", [32, 256, 1024])
def test_beside_aiperf_on_the_same_server(streams: int):
    """Not a contest but a yardstick: the error and the processor time of each, printed, ours not the worse."""
    program = ROOT / ".cache/aiperf/bin/aiperf"
    if not program.exists():
        pytest.skip("scripts/get-aiperf was not run")
    tokenizer = next((ROOT / "tests/assets").rglob("tokenizer.json"), None)
    if tokenizer is None:
        pytest.skip("aiperf makes its prompts with a tokenizer, and none is in tests/assets")
    itl = 0.05 if streams <= 256 else 0.1
    shape = Shape(prompt_tokens=256, output_tokens=100, concurrency=streams, requests=streams)
    errors = {}
    with scheduled(command(Schedule(TTFT_SECONDS, itl, tokens=100))) as url:
        target = LoadTarget(url, "scheduled")
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        (theirs,) = drive("aiperf", target, shape, program=str(program), tokenizer=str(tokenizer.parent))
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        truth = httpx2.get(f"{url}/record", trust_env=False).json()
        spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        errors["aiperf"] = (theirs.ttft.mean - truth["ttft_mean"], theirs.tpot.mean / truth["itl_mean"] - 1, spent)
        tally, flight = run(target, Repeated(target, streams, 100, PROMPT), Arrivals(streams))
        truth = httpx2.get(f"{url}/record", trust_env=False).json()
        itl_mean = tally.gaps.total / tally.gaps.count
        ttft = spread_of(tally.ttft).mean
        errors["ours"] = (ttft - truth["ttft_mean"], itl_mean / truth["itl_mean"] - 1, flight.cpu_seconds)
    print(json.dumps({name: [round(value, 4) for value in row] for name, row in errors.items()}))
    assert abs(errors["ours"][0]) <= abs(errors["aiperf"][0]) + 0.005
    assert abs(errors["ours"][1]) <= abs(errors["aiperf"][1]) + 0.001
    assert errors["ours"][2] < errors["aiperf"][2]
