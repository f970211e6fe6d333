"""What the plan said against what the engine took: term by term, on each device."""

from collections.abc import Mapping
from typing import Any, ClassVar

from upright.facts.records.base import Figure, Part, QuotedText, Record, Upgrade, fields_added
from upright.facts.records.names import SafeName
from upright.facts.records.plan import Parallel


class Residual(Part):
    """One term on one device. A term that nobody predicted, or that the engine did not tell, has an unknown side."""

    device: SafeName
    """`gpu0`, `gpu1`, ... or `host`."""
    term: SafeName
    """weights, kv_cache, compute, runtime, ... ; `upright explain` knows each."""
    of: tuple[str, ...]
    """The lines of the plan's ledger that it covers; empty if the plan has none."""
    predicted_bytes: Figure
    """The plan's best figure."""
    predicted_low_bytes: int | None = None
    """Lower end of the plan's band."""
    predicted_high_bytes: int | None = None
    """Upper end of the plan's band."""
    measured_bytes: Figure
    """What the engine says, or what follows from what it says; `source` has the log line or the arithmetic."""
    measured_low_bytes: int | None = None
    """Lower end of what the reading allows: engines round."""
    measured_high_bytes: int | None = None
    """Upper end of what the reading allows."""

    @property
    def difference_bytes(self) -> int | None:
        """Measured less predicted: above zero, the engine took more."""
        if self.predicted_bytes.value is None or self.measured_bytes.value is None:
            return None
        return int(self.measured_bytes.value - self.predicted_bytes.value)

    @property
    def within(self) -> bool | None:
        """Whether the measured lies in the plan's band, as far as the reading is sharp; None if a side is unknown."""
        if self.difference_bytes is None:
            return None
        low, high = self.predicted_low_bytes, self.predicted_high_bytes
        measured_low, measured_high = self.measured_low_bytes, self.measured_high_bytes
        if low is None or high is None or measured_low is None or measured_high is None:
            return self.difference_bytes == 0
        return measured_high >= low and measured_low <= high


class PoolResidual(Part):
    """Tokens of cache: predicted, and as the engine counts them."""

    predicted_tokens: Figure
    """The plan's best figure."""
    predicted_low_tokens: int
    """Lower end of the plan's band."""
    predicted_high_tokens: int
    """Upper end of the plan's band."""
    measured_tokens: Figure
    """What the engine says: its metrics, its properties, or its log."""

    @property
    def difference_tokens(self) -> int | None:
        if self.predicted_tokens.value is None or self.measured_tokens.value is None:
            return None
        return int(self.measured_tokens.value - self.predicted_tokens.value)

    @property
    def within(self) -> bool | None:
        measured = self.measured_tokens.value
        return None if measured is None else self.predicted_low_tokens <= measured <= self.predicted_high_tokens


def _from_1(content: dict[str, Any]) -> dict[str, Any]:
    """Schema 1 knew one box."""
    return content


def _from_2(content: dict[str, Any]) -> dict[str, Any]:
    """Schema 2 divided every expert over all ranks."""
    return content


class Residuals(Record):
    """One start of an engine, measured against its plan. The next plan for this box, engine and version uses it."""

    kind: ClassVar[str] = "residuals"
    schema_version: ClassVar[int] = 4
    upgrades: ClassVar[Mapping[int, Upgrade]] = {1: _from_1, 2: _from_2, 3: fields_added}

    deployment: str
    """Which deployment."""
    at: str
    """When it was read (UTC, ISO 8601)."""
    box: str
    """Name of the machine."""
    box_identity: str
    """Which hardware: `Box.identity`."""
    engine: str
    """Which engine."""
    engine_version: str | None
    """Its version; what it teaches holds for this one alone."""
    model: str
    """Name of the artifact."""
    parallel: Parallel = Parallel()
    """How the model was spread over GPUs."""
    draft: bool = False
    """Whether there was a draft model."""
    context_tokens: int
    """Context for each user."""
    users: int
    """Users who were planned for."""
    ubatch_tokens: int | None = None
    """Tokens that the engine computes at once."""
    lines: tuple[Residual, ...]
    """Every term that was predicted or read, by device."""
    pool: PoolResidual
    """The cache, in tokens."""
    unread: tuple[QuotedText, ...] = ()
    """What could not be read, and why, in sentences."""

    def line(self, device: str, term: str) -> Residual | None:
        return next((residual for residual in self.lines if (residual.device, residual.term) == (device, term)), None)
