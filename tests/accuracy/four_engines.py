"""Four real engines on one machine, their curve by one load, and what another load sees of them.

The curve is measured with all four at work, since they share two cores; how much faster a step is while fewer of them
work is measured too. Arrivals of the other load are known to the simulation, so that both see the same crowd. The load
comes in blocks, and the engines' speed is looked at between them: what other programs take changes it.
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
from statistics import fmean, median
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
BLOCK_TURNS = 8
"""On each engine."""
PROBE_SECONDS = 0.6
STEADY = 1.3
"""What the engines' speed may change by within a block,"""
LIKE_THEN = 1.2
"""and since the curve was measured: more than that is another machine, and the curve is not its own."""
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
    probe_seconds: float
    """Of a request, one at a time on each: what blocks are scaled by."""


@dataclass(frozen=True)
class Result:
    """The same load, seen and simulated."""

    name: str
    first_tokens: tuple[float, ...]
    tokens_per_second: float
    simulated: Outcome
    simulated_tokens_per_second: float
    blocks: int
    unsteady: int
    """Blocks that are left out, because the engines' speed changed in them."""

    def errors(self) -> dict[str, float]:
        """The simulation's, relative to what was seen."""
        simulated = self.simulated.first_token_seconds
        found = {
            f"p{100 * share:.0f}": (simulated.quantile(share) or 0.0) / self.seen(share) - 1 for share in (0.5, 0.95)
        }
        return {**found, "throughput": self.simulated_tokens_per_second / self.tokens_per_second - 1}

    def seen(self, share: float) -> float:
        ordered = sorted(self.first_tokens)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))]

    def words(self) -> str:
        if not self.first_tokens:
            return f"{self.name}: the engines' speed changed in every one of {self.blocks} blocks"
        pairs = ", ".join(f"{name} {error:+.0%}" for name, error in self.errors().items())
        real = f"first token p50 {1000 * self.seen(0.5):.0f} ms, p95 {1000 * self.seen(0.95):.0f} ms"
        left = f"{self.unsteady} of {self.blocks} blocks unsteady"
        seen = f"{len(self.first_tokens)} turns, {real}, {self.tokens_per_second:.0f} tok/s"
        return f"{self.name}: {seen}; off by {pairs}; {left}"


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
    start = _probe(engines)
    cells = [
        cell
        for number, (prompt, streams) in enumerate((*ALONE, *TOGETHER))
        for cell in _cells(engines, prompt, streams, repeats, number)
    ]
    found = measured_service(
        cells, pool_tokens=STREAMS * CONTEXT_TOKENS, streams=STREAMS, step_prompt_tokens=CONTEXT_TOKENS
    )
    probe = fmean((start, _probe(engines)))
    times = [_closed(engines[:count], GAUGED, f"beside {count}", seconds) for count in range(1, ENGINES + 1)]
    return Curve(
        service=found.service,
        slowdowns=tuple(min(1.0, each / times[-1]) for each in times),
        requests_per_second=ENGINES / times[-1],
        template_tokens=engines[0].gauge.base_tokens,
        probe_seconds=probe,
    )


def poisson(engines: Sequence[Subject], known: Curve, load: float, blocks: int, seed: int) -> Result:
    shape = GAUGED.model_copy(update={"concurrency": STREAMS, "prompt_tokens": 200})
    usage = _usage(known, opening=shape.prompt_tokens, answer=shape.output_tokens)
    case = _Case("Poisson", shape, usage, load * known.requests_per_second, BLOCK_TURNS)
    return _compared(engines, known, case, blocks, seed)


def many_turns(engines: Sequence[Subject], known: Curve, load: float, blocks: int, seed: int) -> Result:
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
    case = _Case("many turns", shape, usage, load * known.requests_per_second / turns, BLOCK_TURNS // turns)
    return _compared(engines, known, case, blocks, seed)


def _growth(engine: Subject, shape: Shape) -> int:
    """Tokens that a turn adds, the template's among them: one conversation tells. The answer before is read again."""
    source = Prompts(engine.target, shape, engine.gauge, "growth", requests=1)
    tally, _ = run(engine.target, source, Load(1))
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
    """Conversations a second, on all engines together."""
    each: int
    """Conversations on each engine in a block."""


def _compared(engines: Sequence[Subject], known: Curve, case: _Case, blocks: int, seed: int) -> Result:
    whole, first_tokens, output, seconds, last, unsteady = Outcome(), [], 0, 0.0, 0.0, 0
    before = _probe(engines)
    for block in range(blocks):
        seen, wrote, took = _seen(engines, case, seed + ENGINES * block)
        after = _probe(engines)
        factor, changed = fmean((before, after)) / known.probe_seconds, after / before
        before = after
        if not (1 / STEADY < changed < STEADY and 1 / LIKE_THEN < factor < LIKE_THEN):
            unsteady += 1
            continue
        outcome = simulate(
            Setting(
                known.service.scaled(factor), case.usage, ENGINES, 0, 100 * took,
                trace=_trace(case, seed + ENGINES * block), slowdowns=known.slowdowns,
            )
        )  # fmt: skip
        whole.merge(outcome)
        first_tokens += seen
        output, seconds, last = output + wrote, seconds + took, last + outcome.last_seconds
    return Result(
        case.name,
        tuple(first_tokens),
        output / max(seconds, 1e-9),
        whole,
        whole.answered_tokens / max(last, 1e-9),
        blocks,
        unsteady,
    )


def _seen(engines: Sequence[Subject], case: _Case, seed: int) -> tuple[list[float], int, float]:
    """First tokens, tokens written, seconds."""

    def one(number: int) -> tuple[list[float], int, float, float]:
        target, gauge = engines[number].target, engines[number].gauge
        source = Prompts(target, case.shape, gauge, f"{case.name} {seed} {number}", requests=case.each)
        tally, _ = run(target, source, Load(STREAMS, requests_per_second=case.rate / ENGINES, seed=seed + number))
        assert not tally.errors, tally.errors
        return list(tally.ttft), sum(tally.output), tally.began, tally.ended

    found = _at_once(one, ENGINES)
    took = max(ended for *_, ended in found) - min(began for *_, began, _ in found)
    return [first for times, *_ in found for first in times], sum(wrote for _, wrote, *_ in found), took


def _trace(case: _Case, seed: int) -> tuple[tuple[float, int], ...]:
    """The arrivals as the generator draws them."""
    found = []
    for number in range(ENGINES):
        arrivals, at = random.Random(seed + number), 0.0
        for _ in range(case.each):
            found.append((at, number))
            at += arrivals.expovariate(case.rate / ENGINES)
    return tuple(sorted(found))


def _probe(engines: Sequence[Subject]) -> float:
    """Seconds of a request, one after another on each of them at once."""
    return _closed(engines, GAUGED, f"probe {time.time_ns()}", PROBE_SECONDS)


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


def _cells(engines: Sequence[Subject], prompt: int, streams: int, repeats: int, number: int) -> list[Cell]:
    shape = Shape(prompt_tokens=prompt, output_tokens=48, concurrency=streams, requests=repeats * max(1, streams // 2))
    found = _at_once(lambda at: measure(engines[at], shape, Place(f"curve {number} {at}", "curve", 1, 7)), len(engines))
    return [cell.model_copy(update={"marks": ()}) for cell in found if not cell.failed]


def _closed(engines: Sequence[Subject], shape: Shape, seed: str, seconds: float) -> float:
    """Seconds of a request in the middle, one after another on each of them."""

    def one(number: int) -> list[float]:
        target, gauge = engines[number].target, engines[number].gauge
        source = Prompts(target, shape, gauge, f"{seed} {number}")
        return list(run(target, source, Load(shape.concurrency, seconds=seconds))[0].latency)

    return median(value for times in _at_once(one, len(engines)) for value in times)


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
