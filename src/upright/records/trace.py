"""What coding agents asked of a server: lengths, waits and prefixes of every turn, and no text."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from upright.records.base import Part, Record
from upright.records.names import FitName

MOST_TURNS = 10_000
MOST_SESSIONS = 1_000


class TraceTurn(Part):
    """One request of an agent."""

    wait_seconds: float = Field(0.0, ge=0, le=86_400)
    """From the answer before it until it is sent: a tool runs, or a person thinks."""
    kept_tokens: int | None = Field(None, ge=0, le=100_000_000)
    """Tokens of its first prompt that it begins with, after a compaction; None: all that was said before."""
    new_tokens: int = Field(ge=1, le=100_000_000)
    """Tokens that it adds."""
    output_tokens: int = Field(ge=1, le=10_000_000)
    """Tokens of its answer."""


class TraceSession(Part):
    """One agent from its first request to its last."""

    begins_seconds: float = Field(0.0, ge=0, le=86_400)
    """When, counted from the beginning of the trace."""
    shared_tokens: int = Field(0, ge=0, le=100_000_000)
    """Tokens of its first prompt that every session of the trace begins with: system prompt and tools."""
    turns: tuple[TraceTurn, ...] = Field(min_length=1, max_length=MOST_TURNS)
    """In their order."""


class AgentTrace(Record):
    """Sessions of coding agents, to be replayed."""

    kind: ClassVar[str] = "agent-trace"

    title: FitName
    """What it is called."""
    source: str
    """Where its lengths and waits come from."""
    sessions: tuple[TraceSession, ...] = Field(min_length=1, max_length=MOST_SESSIONS)
    """In the order in which they begin."""
