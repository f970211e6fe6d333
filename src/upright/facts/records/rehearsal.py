"""What an engine did with the real shapes and no weights."""

from typing import ClassVar, Literal

from upright.facts.records.base import Part, QuotedText, Record
from upright.facts.records.names import SafeName

RehearsalMethod = Literal["dummy weights", "allocator", "hollow file", "dry run"]


class Share(Part):
    """One figure of memory that the engine itself gave, beside what was planned."""

    device: SafeName
    """gpu0, gpu1, ..., or host."""
    what: str
    """weights, kv_cache, compute, ... as the plan calls them."""
    bytes: int
    """As the engine said it (measured)."""
    planned_bytes: int | None = None
    """What the plan says (derived); None if it has no such line."""
    source: QuotedText = ""
    """The engine's own line."""


class Rehearsal(Record):
    """A start of the real engine with the real shapes, before any weights are here."""

    kind: ClassVar[str] = "rehearsal"

    model: str
    """What was rehearsed."""
    engine: str
    """Which engine."""
    engine_version: str | None
    """Its version."""
    ways: tuple[RehearsalMethod, ...]
    """How: dummy weights (vLLM, SGLang), its allocator, a file of holes with the real header, its dry run."""
    passed: bool
    """Whether every way that was tried came to its end."""
    answered: bool
    """Whether it answered a question; only a start can."""
    context_tokens: int
    """Context for each user."""
    kv_tokens: int | None = None
    """Tokens of cache that the engine says it has (measured); None if it does not say."""
    planned_kv_tokens: int | None = None
    """Tokens that the plan is sure of, or asks for where the engine takes no more than that (derived)."""
    shares: tuple[Share, ...] = ()
    """The engine's own figures, by device."""
    weights_bytes: int
    """Weights of the model, none of which were needed."""
    fetched_bytes: int
    """What was read or fetched instead: headers, configuration, tokenizer."""
    written_bytes: int
    """What the rehearsal put on the disk."""
    seconds: float
    """All of it."""
    proved: tuple[str, ...] = ()
    """What is known now."""
    not_proved: tuple[str, ...] = ()
    """What is not, and why."""
    code: str | None = None
    """Why it fell, as the failures catalogue calls it; None if it did not, or nobody knows."""
    said: QuotedText = ""
    """The line that says so."""
