"""Four real engines on one machine, their curve by one load, and what another load sees of them.

The curve is measured with all four at work, since they share two cores; how much faster a step is while fewer of them
work is measured too. Arrivals of the other load are known to the simulation, so that both see the same crowd.
"""

from __future__ import annotations

import contextlib
import os
import random
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import TypeVar

import httpx2

from upright.benchmarking.bench import subject
from upright.benchmarking.cell import Place, Subject, measure
from upright.benchmarking.known import Known
from upright.benchmarking.load import Load, Target, run
from upright.benchmarking.prompts import Prompts
from upright.records.benchmark import Cell, Shape
from upright.sizing.measured import measured_service
from upright.sizing.outcome import Outcome
from upright.sizing.service import Service
from upright.sizing.simulation import Setting, simulate
from upright.sizing.usage import Habit, Usage

T = TypeVar("T")
ENGINES = 4
STREAMS = 8
CONTEXT_TOKENS = 2048
ALONE = ((40, 1), (100, 1), (200, 1), (400, 1))
TOGETHER = ((100, 2), (100, 4), (100, STREAMS), (400, 4))
GAUGED = Shape(prompt_tokens=150, output_tokens=24, concurrency=1, requests=10**6)


@dataclass(frozen=True)
class Curve:
    """How one of them serves while all work, and how much longer a step takes while one, two, ... work."""

    service: Service
    slowdowns: tuple[float, ...]
    requests_per_second: float
    """That all four together were seen to answer, one at a time each."""
    template_tokens: int


@dataclass(frozen=True)
class Result:
    """The same load, seen and simulated."""

    name: str
    first_tokens: tuple[float, ...]
    tokens_per_second: float
    simulated: Outcome
    simulated_tokens_per_second: float

    def errors(self) -> dict[str, float]:
        """The simulation's, relative to what was seen."""
        found = {
            f"p{share * 100:.0f} of the first token": (self.simulated.first_token_seconds.quantile(share) or 0.0)
            / self.seen(share)
            - 1
            for share in (0.5, 0.95)
        }
        return {**found, "throughput": self.simulated_tokens_per_second / self.tokens_per_second - 1}

    def seen(self, share: float) -> float:
        ordered = sorted(self.first_tokens)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))]

    def words(self) -> str:
        pairs = ", ".join(f"{name} {error:+.0%}" for name, error in self.errors().items())
        real = f"p50 {1000 * self.seen(0.5):.0f} ms, p95 {1000 * self.seen(0.95):.0f} ms"
        return (
            f"{self.name}: {len(self.first_tokens)} turns, {real}, {self.tokens_per_second:.0f} tok/s; off by {pairs}"
        )


@contextlib.contextmanager
def four_engines(server: Path, model: Path) -> Iterator[list[Subject]]:
    ports = [_free_port() for _ in range(ENGINES)]
    settings = ["-t", "1", "-tb", "1", "-np", str(STREAMS), "-c", str(STREAMS * CONTEXT_TOKENS), "--cache-ram", "0"]
    started = [
        subprocess.Popen(
            [server, "-m", model, *settings, "--poll", "0", "--no-webui", "--alias", "tiny", "--port", str(port)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for port in ports
    ]
    # A core that shares its silicon with a busy one is slower: at the lowest priority these keep both always busy.
    started += [
        subprocess.Popen([sys.executable, "-c", "import os\nos.nice(19)\nwhile True: pass"])
        for _ in range(os.cpu_count() or 1)
    ]
    try:
        for port in ports:
            _wait_for(port)
        yield [subject(Known(Target(f"http://127.0.0.1:{port}", "tiny"), name="tiny")) for port in ports]
    finally:
        for process in started:
            process.kill()
            process.wait()


def curve(engines: Sequence[Subject], repeats: int, seconds: float) -> Curve:
    _closed(engines, GAUGED.model_copy(update={"concurrency": 4}), "warm", 1.0)
    cells = [
        cell
        for number, (prompt, streams) in enumerate((*ALONE, *TOGETHER))
        for cell in _cells(engines, prompt, streams, repeats, number)
    ]
    found = measured_service(
        cells, pool_tokens=STREAMS * CONTEXT_TOKENS, streams=STREAMS, step_prompt_tokens=CONTEXT_TOKENS
    )
    times = [_closed(engines[:count], GAUGED, f"beside {count}", seconds) for count in range(1, ENGINES + 1)]
    return Curve(
        service=found.service,
        slowdowns=tuple(min(1.0, each / times[-1]) for each in times),
        requests_per_second=ENGINES / times[-1],
        template_tokens=engines[0].gauge.base_tokens,
    )


def poisson(engines: Sequence[Subject], known: Curve, load: float, requests: int, seed: int) -> Result:
    shape = GAUGED.model_copy(update={"concurrency": STREAMS, "prompt_tokens": 200})
    usage = _usage(known, opening=shape.prompt_tokens, answer=shape.output_tokens)
    return _compared("Poisson", engines, known, shape, usage, load * known.requests_per_second, requests, seed)


def many_turns(engines: Sequence[Subject], known: Curve, load: float, requests: int, seed: int) -> Result:
    turns, added = 4, 60
    shape = GAUGED.model_copy(
        update={"concurrency": STREAMS, "prompt_tokens": 120, "turns": turns, "turn_tokens": added}
    )
    # A turn adds what the template writes around the answer and the question.
    usage = _usage(
        known, opening=shape.prompt_tokens, answer=shape.output_tokens, turns=turns, added=added + known.template_tokens
    )
    rate = load * known.requests_per_second / turns
    return _compared("many turns", engines, known, shape, usage, rate, requests // turns, seed)


def _compared(
    name: str, engines: Sequence[Subject], known: Curve, shape: Shape, usage: Usage, rate: float, count: int, seed: int
) -> Result:
    each = count // ENGINES

    def one(number: int) -> tuple[list[float], int, float, float]:
        target, gauge = engines[number].target, engines[number].gauge
        source = Prompts(target, shape, gauge, f"{name} {seed} {number}", requests=each)
        load = Load(STREAMS, requests_per_second=rate / ENGINES, seed=seed + number)
        tally, _ = run(target, source, load)
        assert not tally.errors, tally.errors
        return list(tally.ttft), sum(tally.output), tally.began, tally.ended

    seen = _at_once(one, ENGINES)
    seconds = max(ended for *_, ended in seen) - min(began for *_, began, _ in seen)
    trace = []
    for number in range(ENGINES):
        arrivals, at = random.Random(seed + number), 0.0  # as the generator draws them
        for _ in range(each):
            trace.append((at, number))
            at += arrivals.expovariate(rate / ENGINES)
    outcome = simulate(
        Setting(known.service, usage, ENGINES, 0, 100 * seconds, trace=tuple(sorted(trace)), slowdowns=known.slowdowns)
    )
    return Result(
        name=name,
        first_tokens=tuple(first for times, *_ in seen for first in times),
        tokens_per_second=sum(output for _, output, *_ in seen) / seconds,
        simulated=outcome,
        simulated_tokens_per_second=outcome.answered_tokens / outcome.last_seconds,
    )


def _usage(known: Curve, *, opening: int, answer: int, turns: int = 1, added: int = 1) -> Usage:
    return Usage(
        shared_tokens=known.template_tokens - 1,
        opening_tokens=Habit(opening - known.template_tokens + 1),
        turn_tokens=Habit(added),
        answer_tokens=Habit(answer),
        turns=Habit(turns),
        tool_seconds=Habit(0),
        thinking_seconds=Habit(0),
        turns_a_request=1,
        longest_tokens=CONTEXT_TOKENS,
    )


def _cells(engines: Sequence[Subject], prompt: int, streams: int, repeats: int, number: int) -> list[Cell]:
    shape = Shape(prompt_tokens=prompt, output_tokens=48, concurrency=streams, requests=repeats * max(1, streams // 2))
    found = _at_once(lambda at: measure(engines[at], shape, Place(f"curve {number} {at}", "curve", 1, 7)), len(engines))
    return [cell.model_copy(update={"marks": ()}) for cell in found if not cell.failed]


def _closed(engines: Sequence[Subject], shape: Shape, seed: str, seconds: float) -> float:
    """Mean seconds of a request, one after another on each of them."""

    def one(number: int) -> list[float]:
        target, gauge = engines[number].target, engines[number].gauge
        source = Prompts(target, shape, gauge, f"{seed} {number}")
        return list(run(target, source, Load(shape.concurrency, seconds=seconds))[0].latency)

    return fmean(value for times in _at_once(one, len(engines)) for value in times)


def _at_once(work: Callable[[int], T], count: int) -> list[T]:
    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(work, range(count)))


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


def _wait_for(port: int) -> None:
    for _ in range(600):
        with contextlib.suppress(httpx2.HTTPError):
            if httpx2.get(f"http://127.0.0.1:{port}/health", trust_env=False).status_code == 200:
                return
        time.sleep(0.1)
    raise AssertionError("llama-server does not answer")
