"""Traces of coding agents: what is generated is what was published, and a replay keeps lengths, waits and prefixes."""

from __future__ import annotations

from pathlib import Path
from statistics import mean, median

import pytest

from upright.base.errors import RecordError, UsageError
from upright.facts.records.benchmark import Cell
from upright.facts.records.loading import load
from upright.facts.records.trace import AgentTrace, TraceFork, TraceSession, TraceTurn
from upright.facts.store import DeploymentDir
from upright.proof.benchmark.bench import bench, subject
from upright.proof.benchmark.cell import CellPlace, RequestSlo, measure
from upright.proof.benchmark.endpoints import address_endpoint
from upright.proof.benchmark.sweep import SweepRequest
from upright.proof.benchmark.synthetic_traces import generate_trace, statistics
from upright.proof.benchmark.trace_replay import longest_tokens, slo_finding, trace_shape
from upright.proof.benchmark.workload import workload


def trace(*sessions: TraceSession) -> AgentTrace:
    return AgentTrace(title="made", source="a test", sessions=sessions)


def turn(new: int, output: int = 4, wait: float = 0.0, kept: int | None = None) -> TraceTurn:
    return TraceTurn(new_tokens=new, output_tokens=output, wait_seconds=wait, kept_tokens=kept)


def replayed(url: str, made: AgentTrace, agents: int = 1) -> Cell:
    known, _ = address_endpoint(url, "scheduled", None, "chat")
    place = CellPlace("run", "agents", 1, 0)
    return measure(subject(known), trace_shape(made, agents), place, trace=made)


def test_what_is_generated_is_what_was_published() -> None:
    """In a context that bounds nothing."""
    made = generate_trace(60, 80, 4_000_000, 7)
    turns = [turn for session in made.sessions for turn in session.turns[1:]]
    grown = sorted(turn.new_tokens for turn in turns)
    assert median(grown) == pytest.approx(652, rel=0.08)
    assert grown[int(0.9 * len(grown))] == pytest.approx(4122, rel=0.12)
    assert mean(turn.output_tokens for turn in turns) == pytest.approx(520, rel=0.15)
    assert max(turn.wait_seconds for turn in turns) == statistics().most_wait_seconds
    assert {session.turns[0].new_tokens for session in made.sessions} == {35_765}


@pytest.mark.parametrize("context", [1024, 4096, 65_536])
def test_a_session_stays_within_its_context_and_is_compacted(context: int) -> None:
    made = generate_trace(8, 60, context, 3)
    assert longest_tokens(made, 8) <= context
    assert any(turn.kept_tokens is not None for session in made.sessions for turn in session.turns)
    assert generate_trace(8, 60, context, 3) == made, "the same seed"
    assert generate_trace(8, 60, context, 4) != made


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


def forked(session: int, after: int, *turns: TraceTurn, begins: float = 0.0, joined: bool = True) -> TraceSession:
    fork = TraceFork(session=session, turn=after, joined=joined)
    return TraceSession(forked_from=fork, begins_seconds=begins, turns=turns)


def test_sub_agents_begin_with_what_was_said_and_are_waited_for(url: str) -> None:
    """Two forks after the first answer, at the same time; the session that they leave goes on when both have ended."""
    made = trace(
        TraceSession(turns=(turn(100), turn(20))),
        forked(1, 1, turn(30), turn(10, wait=0.2)),
        forked(1, 1, turn(40), begins=0.1),
    )
    cell = replayed(url, made)
    assert (cell.marks, cell.succeeded, cell.shape.concurrency) == ((), 5, 1)
    assert cell.samples is not None
    asked = dict(zip(cell.samples.prompt_tokens, cell.samples.sent_us, strict=True))
    assert set(asked) == {100, 104 + 30, 104 + 40, 138 + 10, 104 + 20}
    assert 100_000 <= asked[144] - asked[134] < asked[148] - asked[134], "together, and not one after the other"
    assert asked[124] == max(asked.values()), "last"
    possible = 100 * (3 * 104 + 138) / sum(asked)
    assert f"{possible:.1f} %" in cell.notes[1]
    assert longest_tokens(made, 1) == 100 + 4 + 30 + 4 + 10 + 4


def test_a_sub_agent_in_the_background_is_not_waited_for(url: str) -> None:
    """And one that keeps less than all begins with that."""
    made = trace(
        TraceSession(turns=(turn(100), turn(20))),
        forked(1, 1, turn(30, kept=50), begins=0.4, joined=False),
    )
    cell = replayed(url, made)
    assert cell.samples is not None
    assert cell.samples.prompt_tokens[:2] == (100, 124)
    assert 75 <= cell.samples.prompt_tokens[2] <= 85


def test_a_fork_of_a_fork_and_only_its_own_agents_sessions() -> None:
    made = trace(
        TraceSession(turns=(turn(100), turn(20))),
        TraceSession(turns=(turn(500),)),
        forked(1, 1, turn(30)),
        forked(3, 1, turn(10)),
        forked(2, 1, turn(10)),
    )
    assert made.agents == 2
    assert made.places_of(1) == [1, 3, 4]
    assert made.places_of(2) == [1, 2, 3, 4, 5]
    assert longest_tokens(made, 1) == 100 + 4 + 30 + 4 + 10 + 4


@pytest.mark.parametrize(("session", "after"), [(2, 1), (3, 1), (1, 3)])
def test_a_fork_leaves_a_turn_that_stands_before_it(session: int, after: int) -> None:
    with pytest.raises(ValueError, match="which is not before it"):
        trace(TraceSession(turns=(turn(100), turn(20))), forked(session, after, turn(30)))


def test_the_part_of_the_slo_that_fails_first_is_named(url: str) -> None:
    """First token after 50 ms, then one every 5 ms."""
    cells = [replayed(url, trace(TraceSession(turns=(turn(20, 12), turn(5, 12)))))]
    assert slo_finding(cells, RequestSlo(1.0, 0.5)) == "SLO holds for 1 agent, the most that were tried"
    words = slo_finding(cells, RequestSlo(0.01, 0.5))
    assert words is not None
    assert words.startswith("SLO with 1 agent the TTFT of 0.01 s fails first")


def test_what_a_trace_does_not_take_is_refused(url: str, place: DeploymentDir) -> None:
    known, _ = address_endpoint(url, "scheduled", None, "chat")
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
