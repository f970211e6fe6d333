"""Replays an AgentTrace: requests with their waits and forks, and prefix-cache hits.

What a turn begins with is known beforehand: all that was said before it, or what a compaction kept. So much could come
from a prefix cache; the engine says how much did.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import cast

from upright.facts.records.benchmark import Cell, Shape, Spread
from upright.facts.records.trace import AgentTrace, TraceSession, TraceTurn
from upright.proof.benchmark.load import LoadTarget, Message, Request, RequestResult
from upright.proof.benchmark.prompts import TokenGauge
from upright.proof.benchmark.slo import RequestSlo

_SHORT = 0.95
_TURN_GROUPS = ((1, 1), (2, 4), (5, 16), (17, 10_000))


@dataclass
class _Agent:
    """One session as it goes."""

    place: int
    """In the trace, from 1."""
    session: TraceSession
    rng: random.Random
    opening: str
    """The words of its first prompt."""
    messages: list[Message] = field(default_factory=list)
    done: int = 0
    """Turns that were sent."""
    before: int = 0
    """Of a fork: turns that were answered before it left."""
    held_tokens: int = 0
    """Prompt and answer of the turn before, as the server counted them."""
    reusable_tokens: int = 0
    """Of the turn in flight, what was sent or answered before."""
    parent: _Agent | None = None
    """Of a fork: the session that waits for its end."""
    forks_left: int = 0
    """Forks that its next turn waits for."""
    answer: str = ""
    """What that turn goes on from."""

    @property
    def over(self) -> bool:
        return self.done >= len(self.session.turns)


@dataclass
class ReplayFigures:
    """What was seen of a replay."""

    agents: int
    planned: int = 0
    """Turns of the trace."""
    turns: int = 0
    short: int = 0
    """Answers that ended before their length."""
    seconds: float = 0.0
    prompt_tokens: int = 0
    reusable_tokens: int = 0
    ttft_seconds: dict[int, list[float]] = field(default_factory=lambda: defaultdict(list))
    """By turn, from 1."""

    @property
    def possible_percent(self) -> float:
        return 100 * self.reusable_tokens / self.prompt_tokens if self.prompt_tokens else 0.0


class TraceReplay:
    """A Source: the first so many agents of a trace with their forks, each turn after its wait."""

    def __init__(self, target: LoadTarget, trace: AgentTrace, agents: int, gauge: TokenGauge, seed: str) -> None:
        self._target, self._gauge, self._seed = target, gauge, seed
        chosen = {place: trace.sessions[place - 1] for place in trace.places_of(agents)}
        roots = {place: session for place, session in chosen.items() if session.forked_from is None}
        self.figures = ReplayFigures(len(roots), sum(len(session.turns) for session in chosen.values()))
        common = random.Random(f"{seed} shared")  # noqa: S311 (prompts, not secrets)
        longest = max(session.shared_tokens for session in roots.values())
        self._common = self._gauge.words_of(longest, common)[0].split(" ") if longest else []
        self._waiting = [self._agent(place, session) for place, session in roots.items()]
        self._forks: dict[tuple[int, int], list[int]] = defaultdict(list)
        for place, session in chosen.items():
            if (fork := session.forked_from) is not None:
                self._forks[fork.session, fork.turn].append(place)
        self._sessions = chosen
        self._begun = False
        self._began_at: float | None = None

    def first(self) -> Request | None:
        if not self._waiting:
            return None
        agent = self._waiting.pop(0)
        return replace(self._next(agent, None), wait_seconds=agent.session.begins_seconds)

    def following(self, request: Request, answer: str) -> Request | None:
        agent = cast(_Agent, request.session)
        forks = [self._fork(agent, place, answer) for place in self._forks[agent.place, agent.done]]
        agent.answer = answer
        requests = [replace(self._next(fork, None), wait_seconds=fork.session.begins_seconds) for fork in forks]
        if not agent.forks_left and (next_turn := self._gone_on(agent)) is not None:
            requests.append(next_turn)
        return replace(requests[0], beside=tuple(requests[1:])) if requests else None

    def _gone_on(self, agent: _Agent) -> Request | None:
        """Its next turn; of a fork that is over the next one of the session that waited for it."""
        if not agent.over:
            return self._next(agent, agent.answer)
        parent = agent.parent
        if parent is None:
            return None
        parent.forks_left -= 1
        return self._gone_on(parent) if not parent.forks_left else None

    def landed(self, landing: RequestResult) -> None:
        """What the server counted is what the next turn begins with."""
        agent = cast(_Agent, landing.request.session)
        if landing.usage is None or landing.first_at is None:
            return
        prompt, output = landing.usage.get("prompt", 0), landing.usage.get("output", 0)
        figures = self.figures
        self._began_at = min(self._began_at or landing.sent_at, landing.sent_at)
        figures.turns += 1
        figures.short += output < _SHORT * (landing.request.output_tokens or 0)
        figures.seconds = max(figures.seconds, landing.ended_at - self._began_at)
        figures.prompt_tokens += prompt
        figures.reusable_tokens += min(agent.reusable_tokens, prompt)
        figures.ttft_seconds[agent.before + agent.done].append(landing.first_at - landing.sent_at)
        agent.held_tokens = prompt + output

    def _agent(self, place: int, session: TraceSession) -> _Agent:
        shared = self._common[: session.shared_tokens // self._gauge.cost]
        rng = self._rng(place)
        text, _ = self._gauge.text(session.turns[0].new_tokens, rng, " ".join(shared), len(shared) * self._gauge.cost)
        return _Agent(place, session, rng, text)

    def _fork(self, left: _Agent, place: int, answer: str) -> _Agent:
        """A sub-agent: it begins with all that was said in the session that it leaves, or with what it keeps of it."""
        session = self._sessions[place]
        fork = _Agent(place, session, self._rng(place), left.opening, before=left.before + left.done)
        turn, waits = session.turns[0], session.forked_from is not None and session.forked_from.joined
        if turn.kept_tokens is None:
            fork.messages = [*left.messages, {"role": "assistant", "content": answer}]
            fork.held_tokens = left.held_tokens
        if waits:
            fork.parent = left
            left.forks_left += 1
        return fork

    def _rng(self, place: int) -> random.Random:
        return random.Random(f"{self._seed} {place - 1}")  # noqa: S311

    def _next(self, agent: _Agent, answer: str | None) -> Request:
        turn, forked = agent.session.turns[agent.done], agent.session.forked_from is not None
        if turn.kept_tokens is not None and (answer is not None or forked):
            kept = agent.opening.split(" ")[: max(1, turn.kept_tokens // self._gauge.cost)]
            new = self._said(agent, turn)["content"]
            agent.messages = [{"role": "user", "content": f"{' '.join(kept)} {new}"}]
            agent.reusable_tokens = turn.kept_tokens
        elif answer is not None or forked:
            spoken: list[Message] = [{"role": "assistant", "content": answer}] if answer is not None else []
            agent.messages += [*spoken, self._said(agent, turn)]
            agent.reusable_tokens = agent.held_tokens
        else:
            agent.messages = [{"role": "user", "content": agent.opening}]
            agent.reusable_tokens = agent.session.shared_tokens if self._begun else 0
            self._begun = True
        agent.done += 1
        payload = self._target.request(agent.messages, turn.output_tokens)
        return Request(payload, None, output_tokens=turn.output_tokens, session=agent, wait_seconds=turn.wait_seconds)

    def _said(self, agent: _Agent, turn: TraceTurn) -> Message:
        return {"role": "user", "content": self._gauge.words_of(max(self._gauge.cost, turn.new_tokens), agent.rng)[0]}


def trace_shape(trace: AgentTrace, agents: int) -> Shape:
    """What a cell says of a replay: its first prompt, its mean answer, its agents and their turns."""
    sessions = [trace.sessions[place - 1] for place in trace.places_of(agents)]
    roots = [session for session in sessions if session.forked_from is None]
    turns = [turn for session in sessions for turn in session.turns]
    return Shape(
        prompt_tokens=roots[0].turns[0].new_tokens,
        output_tokens=round(sum(turn.output_tokens for turn in turns) / len(turns)),
        concurrency=len(roots),
        requests=len(roots),
        turns=max(len(session.turns) for session in roots),
        turn_tokens=round(sum(turn.new_tokens for turn in turns) / len(turns)),
        shared_tokens=min(session.shared_tokens for session in roots),
    )


def longest_tokens(trace: AgentTrace, agents: int) -> int:
    """The longest prompt with its answer."""
    ends: dict[tuple[int, int], int] = {}
    for place in trace.places_of(agents):
        session = trace.sessions[place - 1]
        fork = session.forked_from
        held = ends[fork.session, fork.turn] if fork is not None else 0
        for number, turn in enumerate(session.turns, 1):
            held = (held if turn.kept_tokens is None else turn.kept_tokens) + turn.new_tokens + turn.output_tokens
            ends[place, number] = held
    return max(ends.values())


def slo_finding(cells: Sequence[Cell], promise: RequestSlo) -> str | None:
    """How many agents the SLO holds for, and which part of it fails first; p90 decides."""
    kept: list[int] = []
    for agents in sorted({cell.shape.concurrency for cell in cells}):
        measured = [cell for cell in cells if cell.shape.concurrency == agents and cell.succeeded]
        shares = {
            f"TTFT of {promise.ttft_seconds:g} s": [
                _share(cell.ttft_seconds, promise.ttft_seconds) for cell in measured
            ],
            f"TPOT of {1000 * promise.tpot_seconds:g} ms": [
                _share(cell.tpot_seconds, promise.tpot_seconds) for cell in measured
            ],
        }
        medians = {name: median(times) for name, times in shares.items() if times}
        if not medians:
            continue
        name, worst = max(medians.items(), key=lambda pair: pair[1])
        if worst > 1:
            before = f"holds for {_agents(kept[-1])}; " if kept else ""
            return f"SLO {before}with {_agents(agents)} the {name} fails first (p90 is {worst:.3g} times that)"
        kept.append(agents)
    return f"SLO holds for {_agents(kept[-1])}, the most that were tried" if kept else None


def _share(spread: Spread | None, promised: float) -> float:
    return spread.p90 / promised if spread is not None else 0.0


def _agents(count: int) -> str:
    return "1 agent" if count == 1 else f"{count} agents"


def replay_notes(figures: ReplayFigures, cell: Cell) -> tuple[str, ...]:
    """Turns a minute, TTFT by turn, and the prefix cache: what could have come from it, and what did."""
    if not figures.turns:
        return ()
    a_minute = 60 * figures.turns / figures.seconds if figures.seconds else 0.0
    firsts = ", ".join(
        f"{_turns(low, min(high, max(figures.ttft_seconds)))} {median(times):.3g} s"
        for low, high in _TURN_GROUPS
        if (times := [ttft for turn, group in figures.ttft_seconds.items() if low <= turn <= high for ttft in group])
    )
    remarks = [f"{a_minute:.3g} turns a minute by {_agents(figures.agents)}; median TTFT: {firsts}"]
    remarks.append(_prefix_words(figures, cell))
    if figures.turns < figures.planned:
        remarks.append(f"{figures.turns} of the trace's {figures.planned} turns were replayed in its time")
    if figures.short:
        remarks.append(f"{figures.short} of {figures.turns} answers ended before the length that the trace has")
    return tuple(remarks)


def _turns(low: int, high: int) -> str:
    return f"turn {low}" if low == high else f"turns {low} to {high}"


def _prefix_words(figures: ReplayFigures, cell: Cell) -> str:
    """The engine's counter beside ours, where every request that it counted is one of the answers."""
    told = [f"prefix cache: {figures.possible_percent:.1f} % of the prompt tokens were sent or answered before"]
    if cell.cached_tokens is not None:
        told.append(f"{100 * cell.cached_tokens / figures.prompt_tokens:.1f} % came from it by the answers' own count")
    view = cell.engine
    if view is not None and view.cached_tokens is not None and not cell.unfinished and not cell.errors:
        told.append(f"{100 * view.cached_tokens / figures.prompt_tokens:.1f} % by the engine's counter")
    return "; ".join(told) if len(told) > 1 else f"{told[0]}; the engine does not say how many came from it"
