"""What was seen: every question put to a deployment, its answer, and the verdict."""

from __future__ import annotations

from typing import ClassVar, Literal

from upright.records.base import Entry, Json, Record, Said

Verdict = Literal["passed", "failed", "unsupported", "skipped"]


class Observation(Entry):
    """One check of one rung."""

    kind: ClassVar[str] = "observation"

    rung: str
    """smoke, tools, context, ..."""
    check: str
    """The check's name inside the rung."""
    verdict: Verdict
    """passed, failed, unsupported or skipped."""
    reason: Said
    """Why, in words; the rule's own sentence."""
    at: str
    """When (UTC, ISO 8601)."""
    seconds: float
    """How long the answer took."""
    request: Json
    """What was sent, without the key."""
    response: Json | None
    """What came back, whole; None if nothing did."""


class Evidence(Record):
    """One climb of the ladder."""

    kind: ClassVar[str] = "evidence"

    deployment: str
    """Which deployment answered."""
    engine: str
    """Which engine."""
    engine_version: str | None
    """Its version."""
    to_rung: str
    """The rung that was asked for."""
    observations: tuple[Observation, ...]
    """In the order they were made."""

    @property
    def passed(self) -> bool:
        """True if something was checked and nothing failed."""
        verdicts = {observation.verdict for observation in self.observations}
        return "passed" in verdicts and "failed" not in verdicts

    def rung_verdict(self, rung: str) -> Verdict:
        verdicts = {item.verdict for item in self.observations if item.rung == rung}
        for verdict in ("failed", "passed", "unsupported"):
            if verdict in verdicts:
                return verdict
        return "skipped"
