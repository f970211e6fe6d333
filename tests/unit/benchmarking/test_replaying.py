"""Traces of coding agents: what is generated is what was published, and a replay keeps lengths, waits and prefixes."""

from __future__ import annotations

from pathlib import Path
from statistics import mean, median

import pytest

from upright.benchmarking.bench import bench, subject
from upright.benchmarking.cell import CellPlace, RequestPromise, measure
from upright.benchmarking.known import of_address
from upright.benchmarking.replaying import longest_tokens, slo_finding, trace_shape
from upright.benchmarking.sweep import SweepRequest
from upright.benchmarking.traces import generated, statistics
from upright.benchmarking.workload import workload
from upright.errors import RecordError, UsageError
from upright.records.benchmark import Cell
from upright.records.loading import load
from upright.records.trace import AgentTrace, TraceSession, TraceTurn
from upright.store import DeploymentDir


def trace(*sessions: TraceSession) -> AgentTrace:
    return AgentTrace(title="made", source="a test", sessions=sessions)


def turn(new: int, output: int = 4, wait: float = 0.0, kept: int | None = None) -> TraceTurn:
    return TraceTurn(new_tokens=new, output_tokens=output, wait_seconds=wait, kept_tokens=kept)


def replayed(url: str, made: AgentTrace, agents: int = 1) -> Cell:
    known, _ = of_address(url, "scheduled", None, "chat")
    place = CellPlace("run", "agents", 1, 0)
    return measure(subject(known), trace_shape(made, agents), place, trace=made)


def test_what_is_generated_is_what_was_published() -> None:
    """In a context that bounds nothing."""
    made = generated(60, 80, 4_000_000, 7)
    turns = [turn for session in made.sessions for turn in session.turns[1:]]
    grown = sorted(turn.new_tokens for turn in turns)
    assert median(grown) == pytest.approx(652, rel=0.08)
    assert grown[int(0.9 * len(grown))] == pytest.approx(4122, rel=0.12)
    assert mean(turn.output_tokens for turn in turns) == pytest.approx(520, rel=0.15)
    assert max(turn.wait_seconds for turn in turns) == statistics().most_wait_seconds
    assert {session.turns[0].new_tokens for session in made.sessions} == {35_765}


@pytest.mark.parametrize("context", [1024, 4096, 65_536])
def test_a_session_stays_within_its_context_and_is_compacted(context: int) -> None:
    made = generated(8, 60, context, 3)
    assert longest_tokens(made, 8) <= context
    assert any(turn.kept_tokens is not None for session in made.sessions for turn in session.turns)
    assert generated(8, 60, context, 3) == made, "the same seed"
    assert generated(8, 60, context, 4) != made


def test_a_replay_keeps_lengths_waits_and_prefixes(url: str) -> None:
    made = trace(TraceSession(turns=(turn(100), turn(20, 6, wait=0.3), turn(30, 4, kept=50))))
    cell = replayed(url, made)
    assert cell.marks == ()
    assert cell.samples is not None
    assert cell.samples.output_tokens == (4, 6, 4)
    first, second, third = cell.samples.prompt_tokens
    assert (first, second) == (100, 124), "the turn before, its answer, and what is new"
    assert 75 <= third <= 85, "compacted: the beginning, and what is new"
    waited = (cell.samples.sent_us[1] - cell.samples.ended_us[0]) / 1e6
    assert waited >= 0.29
    possible = 100 * (104 + 50) / (first + second + third)
    assert f"prefix cache: {possible:.1f} % of the prompt tokens were sent or answered before" in cell.notes[1]
    assert "turns a minute by 1 agent; median TTFT: turn 1 " in cell.notes[0]


def test_agents_share_their_beginning_and_begin_in_turn(url: str) -> None:
    sessions = tuple(
        TraceSession(begins_seconds=0.2 * number, shared_tokens=40, turns=(turn(60), turn(10))) for number in range(3)
    )
    cell = replayed(url, trace(*sessions), agents=3)
    assert (cell.sent, cell.succeeded, cell.marks) == (6, 6, ())
    assert cell.samples is not None
    assert max(cell.samples.sent_us) >= 400_000
    possible = 100 * (2 * 40 + 3 * 64) / sum(cell.samples.prompt_tokens)
    assert f"{possible:.1f} %" in cell.notes[1]


def test_the_part_of_the_slo_that_fails_first_is_named(url: str) -> None:
    """First token after 50 ms, then one every 5 ms."""
    cells = [replayed(url, trace(TraceSession(turns=(turn(20, 12), turn(5, 12)))))]
    assert slo_finding(cells, RequestPromise(1.0, 0.5)) == "SLO holds for 1 agent, the most that were tried"
    words = slo_finding(cells, RequestPromise(0.01, 0.5))
    assert words is not None
    assert words.startswith("SLO with 1 agent the TTFT of 0.01 s fails first")


def test_what_a_trace_does_not_take_is_refused(url: str, place: DeploymentDir) -> None:
    known, _ = of_address(url, "scheduled", None, "chat")
    short, agents = workload("short"), workload("agents")
    made = trace(TraceSession(turns=(turn(20),)))
    with pytest.raises(UsageError, match="short replays no trace"):
        bench([known], SweepRequest(short, tuple(short.shapes()), trace=made), place, test=False)
    longer = agents.model_copy(update={"prompt_tokens": 9})
    with pytest.raises(UsageError, match="agents has the lengths and times of its trace"):
        bench([known], SweepRequest(longer, tuple(longer.shapes())), place, test=False)


@pytest.mark.parametrize(
    "turns", ["[]", "[{new_tokens: 0, output_tokens: 1}]", "[{new_tokens: 1, output_tokens: 1, wait_seconds: .inf}]",
              "[{new_tokens: 99999999999, output_tokens: 1}]", "[{new_tokens: 1, output_tokens: 1, text: secret}]"],
)  # fmt: skip
def test_a_trace_of_a_stranger_is_bounded(turns: str, tmp_path: Path) -> None:
    file = tmp_path / "trace.yaml"
    file.write_text(f"record: agent-trace\nschema: 1\ntitle: t\nsource: s\nsessions: [{{turns: {turns}}}]\n")
    with pytest.raises(RecordError):
        load(file, AgentTrace)
