"""What is sent, where it comes from, and how it arrives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol


@dataclass(frozen=True, slots=True)
class Request:
    """What is sent, and what is known of it."""

    payload: bytes
    prompt_tokens: int | None
    """As it should be counted; None if that is not known."""
    output_tokens: int | None = None
    """The longest answer that it asks for; None if that is not limited."""
    keep_text: bool = True
    session: object = None
    """For a source of conversations: which one."""
    wait_seconds: float = 0.0
    """How long after the answer before it, or after the beginning, it is sent."""
    beside: tuple[Request, ...] = ()
    """What follows at the same time from the same answer: sub-agents, each after a wait of its own."""


class RequestResult(NamedTuple):
    """What became of one request."""

    request: Request
    sent_at: float
    ended_at: float
    first_at: float | None = None
    """When the first piece came; None if none did, or it failed."""
    text: str = ""
    finish_reason: str | None = None
    usage: dict[str, int] | None = None
    """`prompt` and `output` as the server counted them."""
    error: str | None = None
    """The kind of failure; None for a whole answer."""
    words: str = ""


class RequestSource(Protocol):
    """Where requests come from."""

    def first(self) -> Request | None:
        """The first request of something new; None when there is nothing left."""
        ...

    def following(self, request: Request, answer: str) -> Request | None:
        """What comes after that answer in the same conversation; None if it is over."""
        ...


@dataclass(frozen=True)
class Arrivals:
    """How requests arrive, and when to end."""

    concurrency: int
    requests_per_second: float | None = None
    """Poisson arrivals at this rate; None for a closed loop."""
    ramp_seconds: float = 0.0
    seconds: float | None = None
    """No new request after this; None: until the source is empty."""
    grace_seconds: float = 30.0
    """How long after that a running request may take to end."""
    patience_seconds: float = 300.0
    """A stream without a byte for so long has stalled."""
    seed: int = 0
