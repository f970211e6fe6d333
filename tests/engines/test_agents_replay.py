"""Coding agents replayed on a real llama-server: prefix-cache hits as it counts them itself."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.engines.test_ladder import llama
from tests.unit.proof.benchmark.test_recording import replayed_through
from upright.facts.records.benchmark import Cell
from upright.facts.records.trace import AgentTrace, TraceFork, TraceSession, TraceTurn
from upright.proof.benchmark.bench import subject
from upright.proof.benchmark.cell import CellPlace, measure
from upright.proof.benchmark.endpoints import address_endpoint
from upright.proof.benchmark.load import Arrivals, LoadTarget, Request, run
from upright.proof.benchmark.selftest import Repeated
from upright.proof.benchmark.trace_replay import trace_shape

pytestmark = pytest.mark.engine
TURNS = tuple(
    TraceTurn(new_tokens=new, output_tokens=output, wait_seconds=wait, kept_tokens=kept)
    for new, output, wait, kept in (
        (600, 16, 0.0, None),
        (80, 24, 0.1, None),
        (120, 8, 0.05, None),
        (60, 16, 0.0, 400),
        (40, 16, 0.1, None),
    )
)


def replayed(
    url: str, agents: int, model: str = "tiny-kimi", forks: tuple[TraceSession, ...] = (), shared_tokens: int = 400
) -> Cell:
    sessions = tuple(TraceSession(shared_tokens=shared_tokens, turns=TURNS) for _ in range(agents))
    trace = AgentTrace(title="made", source="a test", sessions=(*sessions, *forks))
    known, _ = address_endpoint(url, model, None, "chat")
    return measure(subject(known), trace_shape(trace, agents), CellPlace("run", "agents", 1, 0), trace=trace)


def test_hits_are_those_that_the_engine_counts(llama_server: Path, tiny_model: Path) -> None:
    with llama(llama_server, tiny_model, "--metrics", context=2048, slots=2) as url:
        alone, together = replayed(url, 1), replayed(url, 2)
    for cell in (alone, together):
        assert cell.errors == {}
        assert cell.samples is not None
        prompts = sum(cell.samples.prompt_tokens)
        assert cell.cached_tokens is not None
        assert cell.engine is not None
        assert cell.engine.cached_tokens is not None
        assert abs(cell.engine.cached_tokens - cell.cached_tokens) <= 0.01 * prompts
        assert cell.cached_tokens > 0.5 * prompts, cell.notes


@pytest.mark.slow
def test_sub_agents_find_what_was_said_before_them(llama_server: Path, tiny_model: Path) -> None:
    """llama.cpp copies a slot's cells to the sub-agent's, so that it need not be read again."""
    turns = (TraceTurn(new_tokens=60, output_tokens=8), TraceTurn(new_tokens=40, output_tokens=8))
    forks = tuple(TraceSession(forked_from=TraceFork(session=1, turn=2), turns=turns) for _ in range(2))
    with llama(llama_server, tiny_model, "--metrics", context=2048, slots=4) as url:
        cell = replayed(url, 1, forks=forks)
    assert cell.errors == {}
    assert cell.succeeded == len(TURNS) + 4
    assert cell.samples is not None
    assert cell.cached_tokens is not None
    assert cell.engine is not None
    assert cell.engine.cached_tokens is not None
    prompts = sum(cell.samples.prompt_tokens)
    assert abs(cell.engine.cached_tokens - cell.cached_tokens) <= 0.01 * prompts
    print(cell.notes)
    assert cell.cached_tokens > 0.4 * prompts, cell.notes


def test_a_session_is_recorded_and_replayed_from_its_record(llama_server: Path, tiny_model: Path) -> None:
    """Lengths by llama.cpp's own count, though the client did not ask for one; then the record is replayed."""
    turns = (TraceTurn(new_tokens=60, output_tokens=8), TraceTurn(new_tokens=40, output_tokens=8))
    fork = TraceSession(forked_from=TraceFork(session=1, turn=2), turns=turns)
    made = AgentTrace(title="made", source="a test", sessions=(TraceSession(turns=TURNS[:3]), fork))
    with llama(llama_server, tiny_model, context=2048, slots=2) as url:
        told = replayed_through(url, made, "tiny-kimi")
        again = replayed_through(url, told, "tiny-kimi")
    for before, trace in ((made, told), (told, again)):
        assert [session.forked_from for session in trace.sessions] == [None, fork.forked_from]
        for session, asked in zip(trace.sessions, before.sessions, strict=True):
            assert [turn.output_tokens for turn in session.turns] == [turn.output_tokens for turn in asked.turns]
            lengths = [turn.new_tokens for turn in asked.turns]
            lengths_told = [turn.new_tokens for turn in session.turns]
            assert lengths_told == pytest.approx(lengths, abs=12), "and 9 tokens of the chat template a turn"


@pytest.mark.slow
def test_without_a_prefix_cache_nothing_comes_from_it(llama_server: Path, tiny_model: Path) -> None:
    with llama(llama_server, tiny_model, "--metrics", "--no-cache-prompt", context=2048, slots=1) as url:
        cell = replayed(url, 1)
    assert cell.errors == {}
    assert not cell.cached_tokens
    assert "0.0 % by the engine's counter" in cell.notes[1]


class _SlowToPrepare(Repeated):
    """Prompts that take longer to make than llama-server leaves a connection open: a busy machine, or long contexts."""

    prepared = False

    def first(self) -> Request | None:
        time.sleep(0 if self.prepared else 6)
        self.prepared = True
        return super().first()


def test_a_connection_that_lay_unused_too_long_is_no_fault_of_the_engine(llama_server: Path, tiny_model: Path) -> None:
    with llama(llama_server, tiny_model, slots=2) as url:
        target = LoadTarget(url, "tiny-kimi")
        tally, flight = run(target, _SlowToPrepare(target, 2, 4, "one two three"), Arrivals(2))
    assert (tally.succeeded, dict(tally.errors), tally.sent) == (2, {}, 2)
    assert flight.reopened > 0, "llama-server closed them meanwhile"
