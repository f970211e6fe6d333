"""An engine that was started: where it is, and in what state."""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from upright.facts.records.base import Part, Reason, Record, Upgrade
from upright.facts.records.names import SafeName
from upright.facts.records.recipe import Runtime

State = Literal["planned", "pulling", "starting", "loading", "ready", "degraded", "hung", "failed", "stopped"]
RUNNING: frozenset[State] = frozenset({"pulling", "starting", "loading", "ready", "degraded", "hung"})
"""States that a supervisor keeps true."""
COMING_UP: frozenset[State] = frozenset({"pulling", "starting", "loading"})
_REMEMBERED = 1000
Phase = Literal["pull", "weights", "compile", "graphs", "warmup"]


class Process(Part):
    """A process, told apart from a later one with the same number."""

    pid: int
    """The kernel's number."""
    started_ticks: int
    """Start time in clock ticks since boot: the same number again is another process if this differs."""
    boot_id: str | None = None
    """Which boot those ticks count from (/proc/sys/kernel/random/boot_id); None if that was not recorded."""


class Change(Part):
    """A step in a deployment's life."""

    state: State
    """What it became."""
    at: str
    """When (UTC, ISO 8601)."""
    reason: Reason | None = None
    """Why, in words."""


class Progress(Part):
    """How far an engine has come, in its own words."""

    phase: Phase
    """What it is doing."""
    done: int | None = None
    """Pieces done: shards, layers of an image, graphs; None if it does not say."""
    of: int | None = None
    """Pieces in all."""
    percent: float | None = None
    """As the engine says it, or from the pieces; None if neither is known."""
    seconds: float | None = None
    """Spent in this phase, as the engine says."""
    seconds_left: float | None = None
    """By the rate so far, as the engine says; None while there is none."""


class Keeping(Part):
    """What the supervisor does for its engine, and for how long it waits."""

    restarts: int = 2
    """How often an engine that had been ready is started again after it died."""
    question_seconds: float = 60
    """An engine whose token counters stand still is asked a question this often."""
    hung_seconds: float = 120
    """A question unanswered for so long means that the engine hangs."""
    silent_seconds: float = 600
    """A log without a new line for so long while loading means that it hangs."""


def _from_1(content: dict[str, Any]) -> dict[str, Any]:
    """Schema 1 kept only the last state, so a crash overwrote how the engine had come to it; and a process was told
    by ticks since boot alone, which a reboot starts again. The one change that is known becomes the history; the
    boot stays unknown."""
    change = {"state": content["state"], "at": content["changed_at"], "reason": content.get("reason")}
    return {**content, "history": [change]}


def _from_2(content: dict[str, Any]) -> dict[str, Any]:
    """Schema 2 knew processes of this machine only, which is what the new fields say when they are left out."""
    return content


class Deployment(Record):
    """The state of one deployment; its supervisor is the only writer."""

    kind: ClassVar[str] = "deployment"
    schema_version: ClassVar[int] = 3
    upgrades: ClassVar[Mapping[int, Upgrade]] = {1: _from_1, 2: _from_2}

    name: SafeName
    """The directory's name, and how verbs take it."""
    state: State
    """Where it is in its life."""
    engine: SafeName
    """Which engine."""
    engine_version: SafeName | None
    """Its version."""
    served_name: SafeName
    """The name that clients use."""
    base_url: SafeName
    """Where it answers, from here."""
    runtime: Runtime = "process"
    """What the engine runs in."""
    machine: SafeName | None = None
    """The machine it runs on, as ssh calls it; None for this one."""
    container: SafeName | None = None
    """Its container's name; None for a process."""
    context_tokens: int
    """Context for each user."""
    supervisor: Process | None = None
    """The process that watches over the engine."""
    process: Process | None = None
    """The engine's process on its machine: the engine itself, or what leads its group or its container."""
    created_at: str
    """When `up` was called (UTC, ISO 8601)."""
    changed_at: str
    """When the state last changed."""
    ready_seconds: float | None = None
    """From start to the first real answer."""
    exit_code: int | None = None
    """The engine's exit code; minus the signal's number if one killed it."""
    reason: Reason | None = None
    """Why it is in this state, in words."""
    progress: Progress | None = None
    """How far it has come while it loads."""
    keeping: Keeping = Keeping()
    """What its supervisor does for it."""
    restarts: int = 0
    """How often its supervisor started it again since `up` or `restart`."""
    history: tuple[Change, ...] = ()
    """The states it has been in, the present one last; of a very long life the newest thousand."""

    def changed(self, at: str, **fields: Any) -> "Deployment":
        """The same deployment with other fields; a new state or a new reason joins the history."""
        later = Deployment.model_validate({**dict(self), **fields, "changed_at": at})
        if self.history and (later.state, later.reason) == (self.state, self.reason):
            return later
        step = Change(state=later.state, at=at, reason=later.reason)
        return later.model_copy(update={"history": (*self.history, step)[-_REMEMBERED:]})
