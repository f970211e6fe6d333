"""The simulation against queues that have an exact answer."""

from __future__ import annotations

import math
from dataclasses import replace
from random import Random

import pytest

from upright.planning.sizing.service import Service
from upright.planning.sizing.setting import SimulationSetting
from upright.planning.sizing.simulation import simulate
from upright.planning.sizing.usage import Habit, Usage

SECOND = 1000
"""Tokens of a second's work."""


class Exponential(Habit):
    def draw(self, random: Random) -> float:
        return random.expovariate(1 / self.mean)


ONCE = Usage(
    shared_tokens=0,
    opening_tokens=Habit(1),
    turn_tokens=Habit(1),
    answer_tokens=Habit(1),
    turns=Habit(1),
    tool_seconds=Habit(0),
    thinking_seconds=Habit(0),
    turns_a_request=1,
    longest_tokens=10**9,
)
# Prompts are read one after another, token by token: a single server.
READER = Service(((1, 1e-9),), 1 / SECOND, 1, 10**12, 10**6)


def _wait(work: Habit, load: float, seconds: float = 40_000.0) -> float:
    """Mean wait before one's own second of work."""
    usage = replace(ONCE, opening_tokens=work)
    outcome = simulate(
        SimulationSetting(
            READER, usage, boxes=1, users=0, arrivals_per_second=load, seconds=seconds, warm_up_seconds=500.0
        )
    )
    assert outcome.busy == pytest.approx(load, rel=0.03)
    return (outcome.first_token_seconds.mean or 0.0) - 1.0


@pytest.mark.parametrize("load", [0.3, 0.6])
def test_m_m_1(load: float) -> None:
    assert _wait(Exponential(SECOND), load) == pytest.approx(load / (1 - load), rel=0.08)


@pytest.mark.parametrize("load", [0.3, 0.6])
def test_m_d_1(load: float) -> None:
    assert _wait(Habit(SECOND), load) == pytest.approx(load / (2 * (1 - load)), rel=0.05)


def test_m_g_1() -> None:
    """Pollaczek and Khinchine, with work that varies log-normally."""
    load, sigma = 0.5, 0.8
    assert _wait(Habit(SECOND, sigma), load) == pytest.approx(load * math.exp(sigma**2) / (2 * (1 - load)), rel=0.1)


def test_m_m_1_has_an_exponential_tail() -> None:
    usage = replace(ONCE, opening_tokens=Exponential(SECOND))
    outcome = simulate(SimulationSetting(READER, usage, 1, 0, 40_000.0, 500.0, arrivals_per_second=0.6))
    for share in (0.5, 0.95):
        assert outcome.first_token_seconds.quantile(share) == pytest.approx(-math.log(1 - share) / 0.4, rel=0.08)


@pytest.mark.parametrize(("servers", "load"), [(4, 0.7), (8, 0.7)])
def test_m_m_c(servers: int, load: float) -> None:
    """An engine of c streams whose steps take as long however many they carry: Erlang's second formula."""
    engine = Service(((1, 1 / SECOND),), 0.0, 10**9, 10**12, servers)
    usage = replace(ONCE, answer_tokens=Exponential(SECOND))
    outcome = simulate(
        SimulationSetting(engine, usage, 1, 0, 80_000.0 / servers, 500.0, arrivals_per_second=load * servers)
    )
    offered = load * servers
    top = offered**servers / math.factorial(servers) / (1 - load)
    waits = top / (sum(offered**count / math.factorial(count) for count in range(servers)) + top)
    expected = waits / (servers * (1 - load))
    # The step that a newcomer waits for is a thousandth of the work.
    assert outcome.first_token_seconds.mean == pytest.approx(expected, rel=0.12)
    assert outcome.waited_for_stream / outcome.turns == pytest.approx(waits, rel=0.08)


def test_processor_sharing() -> None:
    """A step as long as its streams are many shares the engine: mean time in it is the work / (1 - load), whatever the
    work's distribution."""
    engine = Service(((1, 1 / SECOND), (1000, 1000 / SECOND)), 0.0, 10**9, 10**12, 1000)
    for work in (Habit(SECOND), Exponential(SECOND)):
        usage = replace(ONCE, answer_tokens=work)
        outcome = simulate(SimulationSetting(engine, usage, 1, 0, 20_000.0, 500.0, arrivals_per_second=0.6))
        assert outcome.busy == pytest.approx(0.6, rel=0.03)
        # Little's law: streams at work = arrivals x time. Each token of everybody took one step of the engine.
        mean_streams = 0.6 / (1 - 0.6)
        slowest = 1 / (outcome.tokens_per_second.quantile(0.5) or 1) * SECOND
        assert slowest == pytest.approx(1 + mean_streams, rel=0.25)


def test_little() -> None:
    """Users that think and ask: their number is the rate of turns x (pause + time in the box)."""
    usage = replace(ONCE, opening_tokens=Exponential(SECOND), thinking_seconds=Habit(10, 1.0))
    outcome = simulate(SimulationSetting(READER, usage, boxes=1, users=8, seconds=50_000.0, warm_up_seconds=500.0))
    cycle = 10 + (outcome.first_token_seconds.mean or 0)
    assert outcome.turns / 50_000 * cycle == pytest.approx(8, rel=0.02)
