"""Four real engines on one machine, each with a device of its own that takes its time, and what loads see of them.

A first load tells their curve, as on any box. Arrivals of the others are known to the simulation, so that both see the
same crowd.
"""

from __future__ import annotations

import contextlib
import random
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TypeVar

import httpx2

from tests.paced import paced_llama_server
from tests.ports import free_port
from upright.facts.records.benchmark import Cell, Shape
from upright.planning.sizing.measured_service import measured_service
from upright.planning.sizing.outcome import SimulationOutcome
from upright.planning.sizing.service import Service
from upright.planning.sizing.setting import SimulationSetting
from upright.planning.sizing.simulation import simulate
from upright.planning.sizing.usage import Habit, Usage
from upright.proof.benchmark.bench import subject
from upright.proof.benchmark.cell import BenchSubject, CellPlace, measure
from upright.proof.benchmark.endpoints import KnownEndpoint
from upright.proof.benchmark.load import Arrivals, LoadTarget, run
from upright.proof.benchmark.prompts import Prompts

T = TypeVar("T")
ENGINES = 4
STREAMS = 8
CONTEXT_TOKENS = 2048
STEP_MS, TOKEN_MS = 20, 1
ALONE = ((40, 1), (100, 1), (200, 1), (400, 1))
TOGETHER = ((100, 2), (100, 4), (100, STREAMS), (400, 4))
GAUGED = Shape(prompt_tokens=150, output_tokens=24, concurrency=1, requests=10**6)


@dataclass(frozen=True)
class Curve:
    """How one of them serves."""

    service: Service
    template_tokens: int

    def alone(self, new_tokens: int, answer_tokens: int) -> float:
        """Seconds of a request that nobody is beside."""
        service = self.service
        steps = service.prompt_step_seconds + (answer_tokens - 1) * service.decode_seconds(1)
        return service.read_seconds(0, new_tokens) + steps


@dataclass(frozen=True)
class Result:
    """The same load, seen and simulated."""

    name: str
    first_tokens: tuple[float, ...]
    tokens_per_second: float
    simulated: SimulationOutcome

    def errors(self) -> dict[str, float]:
        """The simulation's, relative to what was seen."""
        simulated = self.simulated.first_token_seconds
        found = {
            f"p{100 * share:.0f}": (simulated.quantile(share) or 0.0) / self.seen(share) - 1 for share in (0.5, 0.95)
        }
        wrote = self.simulated.answered_tokens / self.simulated.last_seconds
        return {**found, "throughput": wrote / self.tokens_per_second - 1}

    def seen(self, share: float) -> float:
        ordered = sorted(self.first_tokens)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))]

    def words(self) -> str:
        pairs = ", ".join(f"{name} {error:+.0%}" for name, error in self.errors().items())
        real = f"first token p50 {1000 * self.seen(0.5):.0f} ms, p95 {1000 * self.seen(0.95):.0f} ms"
        seen = f"{len(self.first_tokens)} turns, {real}, {self.tokens_per_second:.0f} tok/s"
        return f"{self.name}: {seen}; off by {pairs}"


@contextlib.contextmanager
def four_engines(server: Path, model: Path, folder: Path) -> Iterator[list[BenchSubject]]:
    paced = paced_llama_server(server, folder, step_ms=STEP_MS, token_ms=TOKEN_MS)
    settings = ["-np", str(STREAMS), "-c", str(STREAMS * CONTEXT_TOKENS)]
    settings += ["-b", str(CONTEXT_TOKENS), "-ub", str(CONTEXT_TOKENS), "--cache-ram", "0", "--kv-unified"]
    ports = [free_port() for _ in range(ENGINES)]
    words = [[paced, "-m", model, *settings, "--no-webui", "--alias", "tiny", "--port", str(port)] for port in ports]
    quiet = subprocess.DEVNULL
    started = [subprocess.Popen(each, stdout=quiet, stderr=quiet) for each in words]
    try:
        for port in ports:
            wait_for_engine(port)
        yield [subject(KnownEndpoint(LoadTarget(f"http://127.0.0.1:{port}", "tiny"), name="tiny")) for port in ports]
    finally:
        for process in started:
            process.kill()
            process.wait()


def curve(engines: Sequence[BenchSubject], repeats: int) -> Curve:
    _closed(engines, GAUGED.model_copy(update={"concurrency": 4}), "warm", 1.0)
    cells = [
        cell
        for number, (prompt, streams) in enumerate((*ALONE, *TOGETHER))
        for cell in _cells(engines, prompt, streams, repeats, number)
    ]
    found = measured_service(
        cells, pool_tokens=STREAMS * CONTEXT_TOKENS, streams=STREAMS, step_prompt_tokens=CONTEXT_TOKENS
    )
    return Curve(
        service=found.service,
        template_tokens=engines[0].gauge.base_tokens,
    )


def poisson(engines: Sequence[BenchSubject], known: Curve, load: float, conversations: int, seed: int) -> Result:
    shape = GAUGED.model_copy(update={"concurrency": STREAMS, "prompt_tokens": 200})
    usage = _usage(known, opening=shape.prompt_tokens, answer=shape.output_tokens)
    rate = load / known.alone(shape.prompt_tokens, shape.output_tokens)
    return _compared(engines, known, _Case("Poisson", shape, usage, rate, conversations), seed)


def many_turns(engines: Sequence[BenchSubject], known: Curve, load: float, conversations: int, seed: int) -> Result:
    turns, added = 4, 60
    shape = GAUGED.model_copy(
        update={"concurrency": STREAMS, "prompt_tokens": 120, "turns": turns, "turn_tokens": added}
    )
    usage = _usage(
        known,
        opening=shape.prompt_tokens,
        answer=shape.output_tokens,
        turns=turns,
        added=_growth(engines[0], shape) - shape.output_tokens,
    )
    later = known.alone(round(usage.turn_tokens.mean) + shape.output_tokens, shape.output_tokens)
    rate = load / (known.alone(shape.prompt_tokens, shape.output_tokens) + (turns - 1) * later)
    return _compared(engines, known, _Case("many turns", shape, usage, rate, conversations), seed)


def _growth(engine: BenchSubject, shape: Shape) -> int:
    """Tokens that a turn adds, the template's among them: one conversation tells. The answer before is read again."""
    source = Prompts(engine.target, shape, engine.gauge, "growth", requests=1)
    tally, _ = run(engine.target, source, Arrivals(1))
    first, second = tally.prompt[:2]
    assert tally.cached is not None
    assert tally.cached < sum(tally.prompt[:-1]) + second - first, "answers stay in the cache after all"
    return second - first


@dataclass(frozen=True)
class _Case:
    name: str
    shape: Shape
    usage: Usage
    rate: float
    """Conversations a second on each engine,"""
    each: int
    """and how many in all."""


def _compared(engines: Sequence[BenchSubject], known: Curve, case: _Case, seed: int) -> Result:
    def one(number: int) -> tuple[list[float], int, float, float]:
        target, gauge = engines[number].target, engines[number].gauge
        source = Prompts(target, case.shape, gauge, f"{case.name} {seed} {number}", requests=case.each)
        tally, _ = run(target, source, Arrivals(STREAMS, requests_per_second=case.rate, seed=seed + number))
        assert not tally.errors, tally.errors
        return list(tally.ttft), sum(tally.output), tally.began, tally.ended

    found = _at_once(one, ENGINES)
    took = max(ended for *_, ended in found) - min(began for *_, began, _ in found)
    setting = SimulationSetting(known.service, case.usage, ENGINES, 0, 100 * took, trace=_trace(case, seed))
    return Result(
        case.name,
        tuple(first for times, *_ in found for first in times),
        sum(wrote for _, wrote, *_ in found) / took,
        simulate(setting),
    )


def _trace(case: _Case, seed: int) -> tuple[tuple[float, int], ...]:
    """The arrivals as the generator draws them."""
    found = []
    for number in range(ENGINES):
        arrivals, at = random.Random(seed + number), 0.0
        for _ in range(case.each):
            found.append((at, number))
            at += arrivals.expovariate(case.rate)
    return tuple(sorted(found))


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
        answers_stay=False,
    )


def _cells(engines: Sequence[BenchSubject], prompt: int, streams: int, repeats: int, number: int) -> list[Cell]:
    shape = Shape(prompt_tokens=prompt, output_tokens=48, concurrency=streams, requests=repeats * max(1, streams // 2))
    return _at_once(
        lambda at: measure(engines[at], shape, CellPlace(f"curve {number} {at}", "curve", 1, 7)), len(engines)
    )


def _closed(engines: Sequence[BenchSubject], shape: Shape, seed: str, seconds: float) -> float:
    """Seconds of a request in the middle, one after another on each of them."""

    def one(number: int) -> list[float]:
        target, gauge = engines[number].target, engines[number].gauge
        source = Prompts(target, shape, gauge, f"{seed} {number}")
        return list(run(target, source, Arrivals(shape.concurrency, seconds=seconds))[0].latency)

    return median(value for times in _at_once(one, len(engines)) for value in times)


def _at_once(work: Callable[[int], T], count: int) -> list[T]:
    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(work, range(count)))


def wait_for_engine(port: int) -> None:
    for _ in range(600):
        with contextlib.suppress(httpx2.HTTPError):
            if httpx2.get(f"http://127.0.0.1:{port}/health", trust_env=False).status_code == 200:
                return
        time.sleep(0.1)
    raise AssertionError("llama-server does not answer")
