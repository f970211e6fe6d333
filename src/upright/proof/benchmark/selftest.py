"""The load generator's own error on this machine, against a scheduled server."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import httpx2

from upright.base.errors import EndpointError
from upright.base.host import NEUTRAL_FOLDER
from upright.facts.records.benchmark import Api, SelfTest
from upright.facts.records.spreads import spread_of
from upright.proof.benchmark.load import Arrivals, LoadTarget, Request, run
from upright.proof.benchmark.scheduled_server import Schedule, command

_TTFT_SECONDS = 0.2
_TOKENS = 30
_TOKENS_PER_SECOND = 8000
"""Streams slow down beyond this, as those of a real engine do."""


def self_test(concurrency: int, *, api: Api = "chat") -> SelfTest:
    """About three seconds."""
    itl = max(0.05, concurrency / _TOKENS_PER_SECOND)
    with scheduled(command(Schedule(_TTFT_SECONDS, itl))) as base_url:
        target = LoadTarget(base_url, "scheduled", api)
        load = Arrivals(concurrency, ramp_seconds=concurrency / 1000)
        tally, flight = run(target, Repeated(target, concurrency, _TOKENS), load)
        truth = httpx2.get(f"{base_url}/record", trust_env=False).json()
    ttft = spread_of(tally.ttft)
    if ttft is None or tally.errors:
        raise EndpointError(f"the self-test failed: {dict(tally.errors)}", hint="--no-self-test leaves it out")
    itl_mean = tally.gaps.total / tally.gaps.count
    rate = sum(tally.output) / tally.seconds
    return SelfTest(
        concurrency=concurrency,
        tokens=sum(tally.output),
        ttft_error_seconds=ttft.mean - truth["ttft_mean"],
        ttft_p99_error_seconds=ttft.p99 - truth["ttft_p99"],
        itl_error_percent=100 * (itl_mean / truth["itl_mean"] - 1),
        throughput_error_percent=100 * (rate / truth["tokens_per_second"] - 1),
        reached=truth["peak"],
        cpu_seconds=flight.cpu_seconds,
        loop="asyncio",
    )


class Repeated:
    """A Source: the same request over and over."""

    def __init__(self, target: LoadTarget, requests: int, output_tokens: int, prompt: str = "go") -> None:
        self._left = requests
        self._payload = target.request([{"role": "user", "content": prompt}], output_tokens)
        self._output_tokens = output_tokens

    def first(self) -> Request | None:
        self._left -= 1
        if self._left < 0:
            return None
        return Request(self._payload, None, output_tokens=self._output_tokens, keep_text=False)

    def following(self, request: Request, answer: str) -> Request | None:
        return None


@contextmanager
def scheduled(argv: list[str]) -> Iterator[str]:
    """The address of a scheduled server in a child, which ends with this."""
    with subprocess.Popen(
        argv, cwd=NEUTRAL_FOLDER, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8", errors="replace"
    ) as child:
        assert child.stdout is not None
        line = child.stdout.readline()
        if not line.strip().isdigit():
            raise EndpointError("the self-test's server did not start", hint="--no-self-test leaves it out")
        try:
            yield f"http://127.0.0.1:{int(line)}"
        finally:
            child.communicate()
