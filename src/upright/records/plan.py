"""What would happen: bytes on devices, tokens that fit, and what stands in the way."""

from __future__ import annotations

from typing import ClassVar, Literal

from upright.records.base import Basis, Part, Record

Use = Literal["coding-agent", "chat", "batch", "long-documents"]


class Goal(Part):
    """What the person wants from the deployment."""

    context_tokens: int | None = None
    """Tokens of context a user needs; None means the safe start: 65,536, or less if the model has less."""
    users: int = 1
    """Requests served at once at that context."""
    use: Use = "coding-agent"
    """The shape of the load."""
    engine: str | None = None
    """Only this engine; None lets the planner choose."""
    kv_dtype: str | None = None
    """Only this cache type; None takes the engine's safe one."""


class LedgerLine(Part):
    """Bytes of one term on one device. Exact terms have low == bytes == high."""

    device: str
    """`gpu0`, `gpu1`, ... or `host`."""
    term: str
    """weights, kv_cache, compute, context, ... ; `upright explain` knows each."""
    bytes: int
    """The planner's best figure."""
    low_bytes: int
    """Lower end of the band."""
    high_bytes: int
    """Upper end of the band."""
    basis: Basis
    """Where the figure comes from."""
    why: str
    """The arithmetic or the source, in words."""


class DeviceBudget(Part):
    """What one device offers."""

    device: str
    """`gpu0`, ... or `host`."""
    capacity_bytes: int
    """Bytes the engine may use there."""
    basis: Basis
    """Where the figure comes from."""
    why: str
    """How the budget was reached."""


class KvCache(Part):
    """The key-value cache that the plan provides."""

    dtype: str
    """Stored type, as the engine spells it."""
    bytes_per_token: int
    """One token over all layers, one copy of the cache."""
    capacity_tokens: int
    """Tokens that fit in what is left after every other term."""
    planned_tokens: int
    """Tokens that the plan's setting asks for: context times users."""
    formula: str
    """How bytes_per_token came about."""


class Objection(Part):
    """Something that stands in the way: data, not an exception."""

    code: str
    """does-not-fit, context-too-long, engine-missing, ..."""
    message: str
    """One sentence for people."""
    device: str | None = None
    """Where, if it is about a device."""
    short_bytes: int | None = None
    """How many bytes are missing."""
    remedy: str | None = None
    """What would help, as a command or a setting."""


class Plan(Record):
    """One way to stand this model on this box."""

    kind: ClassVar[str] = "plan"

    engine: str
    """Which engine."""
    engine_version: str | None
    """Its version, if one is installed or was asked for."""
    goal: Goal
    """What was asked."""
    context_tokens: int
    """Context for each user."""
    budgets: tuple[DeviceBudget, ...]
    """What each device offers."""
    ledger: tuple[LedgerLine, ...]
    """Every byte, by device and term."""
    kv: KvCache
    """The cache."""
    objections: tuple[Objection, ...] = ()
    """Empty means that it fits."""

    @property
    def fits(self) -> bool:
        return not self.objections

    def used_bytes(self, device: str) -> int:
        return sum(line.bytes for line in self.ledger if line.device == device)
