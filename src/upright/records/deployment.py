"""An engine that was started: where it is, and in what state."""

from __future__ import annotations

from typing import ClassVar, Literal

from upright.records.base import Part, Record

State = Literal["planned", "pulling", "starting", "loading", "ready", "degraded", "hung", "failed", "stopped"]
RUNNING: frozenset[State] = frozenset({"starting", "loading", "ready", "degraded", "hung"})


class Process(Part):
    """A process, told apart from a later one with the same number."""

    pid: int
    """The kernel's number."""
    started_ticks: int
    """Start time in clock ticks since boot: the same number again is another process if this differs."""


class Deployment(Record):
    """The state of one deployment; its supervisor is the only writer."""

    kind: ClassVar[str] = "deployment"

    name: str
    """The directory's name, and how verbs take it."""
    state: State
    """Where it is in its life."""
    engine: str
    """Which engine."""
    engine_version: str | None
    """Its version."""
    served_name: str
    """The name that clients use."""
    base_url: str
    """Where it answers."""
    context_tokens: int
    """Context for each user."""
    supervisor: Process | None = None
    """The process that watches over the engine."""
    process: Process | None = None
    """The engine's process."""
    created_at: str
    """When `up` was called (UTC, ISO 8601)."""
    changed_at: str
    """When the state last changed."""
    ready_seconds: float | None = None
    """From start to the first real answer."""
    exit_code: int | None = None
    """The engine's exit code; minus the signal's number if one killed it."""
    reason: str | None = None
    """Why it is in this state, in words."""
