"""What coding agents asked of a server: lengths, waits and prefixes of every turn, and no text."""

from collections.abc import Mapping
from typing import Any, ClassVar, Self

from pydantic import Field, model_validator

from upright.facts.records.base import Part, Record, Upgrade
from upright.facts.records.names import SafeName

MOST_TURNS = 10_000
MOST_SESSIONS = 1_000


class TraceTurn(Part):
    """One request of an agent."""

    wait_seconds: float = Field(0.0, ge=0, le=86_400)
    """From the answer before it, or from the end of the last fork that it waits for, until it is sent."""
    kept_tokens: int | None = Field(None, ge=0, le=100_000_000)
    """Tokens of the first prompt, a fork's of the one it left, that it begins with; None: all that was said before."""
    new_tokens: int = Field(ge=1, le=100_000_000)
    """Tokens that it adds."""
    output_tokens: int = Field(ge=1, le=10_000_000)
    """Tokens of its answer."""


class TraceFork(Part):
    """Where a sub-agent leaves the session that started it."""

    session: int = Field(ge=1, le=MOST_SESSIONS)
    """Which, counted from 1; it stands before the fork."""
    turn: int = Field(ge=1, le=MOST_TURNS)
    """After the answer to which turn, counted from 1; the fork begins with all that was said until then."""
    joined: bool = True
    """Whether that session's next turn waits for the end of this one."""


class TraceSession(Part):
    """One agent from its first request to its last."""

    begins_seconds: float = Field(0.0, ge=0, le=86_400)
    """When, counted from the beginning of the trace; of a fork from the answer at which it leaves."""
    forked_from: TraceFork | None = None
    """Of a sub-agent: where it leaves another session; None: it begins by itself."""
    shared_tokens: int = Field(0, ge=0, le=100_000_000)
    """Tokens of its first prompt that every session of the trace begins with: system prompt and tools."""
    turns: tuple[TraceTurn, ...] = Field(min_length=1, max_length=MOST_TURNS)
    """In their order."""


def _from_1(content: dict[str, Any]) -> dict[str, Any]:
    """Schema 1 knew no forks."""
    return content


class AgentTrace(Record):
    """Sessions of coding agents, to be replayed."""

    kind: ClassVar[str] = "agent-trace"
    schema_version: ClassVar[int] = 2
    upgrades: ClassVar[Mapping[int, Upgrade]] = {1: _from_1}

    title: SafeName
    """What it is called."""
    source: str
    """Where its lengths and waits come from."""
    sessions: tuple[TraceSession, ...] = Field(min_length=1, max_length=MOST_SESSIONS)
    """In the order in which they begin."""

    @model_validator(mode="after")
    def _forks_leave_what_stands_before_them(self) -> Self:
        for place, session in enumerate(self.sessions, 1):
            fork = session.forked_from
            if fork is not None and not (
                fork.session < place and fork.turn <= len(self.sessions[fork.session - 1].turns)
            ):
                raise ValueError(
                    f"session {place} forks from turn {fork.turn} of {fork.session}, which is not before it"
                )
        return self

    @property
    def agents(self) -> int:
        """Sessions that begin by themselves; the others are their sub-agents."""
        return sum(session.forked_from is None for session in self.sessions)

    def places_of(self, agents: int) -> list[int]:
        """Where the sessions of the first so many agents stand, their sub-agents included, counted from 1."""
        chosen = list[int]()
        for place, session in enumerate(self.sessions, 1):
            if session.forked_from is None:
                agents -= 1
            if agents >= 0 if session.forked_from is None else session.forked_from.session in chosen:
                chosen.append(place)
        return chosen
