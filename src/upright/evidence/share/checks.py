"""Checks of a bundle: one line each, with a code that programs can go by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from upright.facts.records.base import Part, Reason

Outcome = Literal["holds", "broken", "unknown"]
Level = Literal["broken", "claimed", "consistent", "reproduced", "stale"]
LEVELS: tuple[Level, ...] = ("broken", "stale", "claimed", "consistent", "reproduced")
"""From the least to the most."""


class Check(Part):
    """One thing that was looked at."""

    code: str
    """digest, chain, redaction, headline, samples, clocks, bandwidth, pool, log, signature, ..."""
    outcome: Outcome
    """holds, broken, or unknown where it could not be judged."""
    reason: Reason
    """Why, in one line."""


class Verification(Part):
    """What a bundle is worth, and why."""

    identity: str
    """sha256 of its bytes."""
    level: Level
    """broken, stale, claimed, consistent or reproduced."""
    reproduced_by: int = 0
    """Signers among the keys that the reader named, on boxes of their own, whose consistent bundles repeat this one."""
    unverified_signers: int = 0
    """Signers whose bundles repeat it too, and whom the reader did not name: they raise no level."""
    signed_by: str | None = None
    """The key's fingerprint; None if it is unsigned. It says who claims this, never that it ran."""
    model: str
    """Which model."""
    engine: str
    """Which engine and version."""
    box: str
    """Which kind of box."""
    checks: tuple[Check, ...]
    """Everything that was looked at."""

    @property
    def broken(self) -> tuple[Check, ...]:
        return tuple(check for check in self.checks if check.outcome == "broken")


@dataclass(frozen=True)
class CheckMaker:
    """Makes checks of one code."""

    code: str

    def holds(self, reason: str) -> Check:
        return Check(code=self.code, outcome="holds", reason=reason)

    def broken(self, reason: str) -> Check:
        return Check(code=self.code, outcome="broken", reason=reason)

    def unknown(self, reason: str) -> Check:
        return Check(code=self.code, outcome="unknown", reason=reason)
