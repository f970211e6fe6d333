"""What was seen: every question put to a deployment, its answer, and the verdict."""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from pydantic import Field

from upright.facts.records.base import Entry, Json, Reason, Record, Upgrade
from upright.facts.records.names import SafeName

Verdict = Literal["passed", "failed", "wrong", "unsupported", "skipped"]
"""Failed is the engine's fault, or may be; wrong is a sound answer of a model that may not know the right one."""
Headline = Literal["stands", "stands, but the model is weak", "does not stand", "not known"]
AFTER_LEFT_OUT = "comes after a shorter one that was left out"
CUT_OFF = "cut off at the end of the budget"
TOO_DEAR = "of the budget are left"
"""The reason, or how it ends, of what was skipped for the budget."""
_ASK_NOTHING = ("arguments", "boot")
"""Rungs of which a check may pass without an answer of the model."""
NOT_RUN = "not run: "
"""How the reason begins of a check that this machine could not make, whatever the answer was; it is skipped."""


def _from_1(content: dict[str, Any]) -> dict[str, Any]:
    """Schema 1 did not name its question, what was asked, or with which prompts: those stay unknown."""
    return content


def _from_2(content: dict[str, Any]) -> dict[str, Any]:
    """Schema 2 knew no weak models: what failed there stays failed, whoever's fault it was."""
    return content


class Observation(Entry):
    """One check of one rung."""

    kind: ClassVar[str] = "observation"
    schema_version: ClassVar[int] = 3
    upgrades: ClassVar[Mapping[int, Upgrade]] = {1: _from_1, 2: _from_2}

    rung: str
    """smoke, tools, context, ..."""
    check: str
    """The check's name inside the rung."""
    verdict: Verdict
    """passed, failed, wrong, unsupported or skipped."""
    reason: Reason
    """Why, in words; the rule's own sentence."""
    at: str
    """When (UTC, ISO 8601)."""
    seconds: float
    """How long the answer took."""
    request: Json
    """What was sent, without the key; a long prompt by its digest and the seed it is made from."""
    response: Json | None
    """What came back, whole; None if nothing did."""
    probe: str | None = None
    """The question's own name inside the rung: an interrupted climb does not ask it again."""
    subject: str | None = None
    """`recipe:sha256` of what was running, or `server:sha256` of an address and a model's name."""
    prompts: str | None = None
    """The prompt set and its digest."""
    guard: str | None = None
    """The guard that found the answer broken, whatever was asked; None if a rule did, or nothing was wrong."""
    measured: dict[str, float] = Field(default_factory=dict)
    """Figures of this answer: tokens as the server counted them, rates, how full the cache was."""

    @property
    def left_out(self) -> bool:
        """Whether it was skipped for the budget, and not for what it is."""
        reason = self.reason
        return self.verdict == "skipped" and (reason == AFTER_LEFT_OUT or reason.endswith((CUT_OFF, TOO_DEAR)))


class Climb(Entry):
    """The beginning or the end of a climb; one without an end was interrupted, and is taken up again."""

    kind: ClassVar[str] = "climb"

    event: Literal["begun", "ended"]
    """Which of the two."""
    at: str
    """When (UTC, ISO 8601)."""
    subject: str
    """`recipe:sha256` of what was running, or `server:sha256` of an address and a model's name."""
    prompts: str
    """The prompt set and its digest."""
    to_rung: str
    """The rung that was asked for."""
    budget_seconds: float | None = None
    """The time it may take."""
    reason: Reason | None = None
    """How it ended."""


class Step(Entry):
    """One setting changed, and what came of it."""

    kind: ClassVar[str] = "step"

    setting: str
    """The flag."""
    before: str | None
    """Its value before; None if it was not there."""
    after: str | None
    """Its value afterwards; None if it stands alone."""
    recipe_before: str
    """`recipe:sha256` of the last good recipe."""
    recipe_after: str
    """`recipe:sha256` with the change."""
    outcome: Literal["trying", "kept", "stepped back"]
    """Kept if everything proved before still holds and what it was for is proved too."""
    reason: Reason
    """Why, in words."""
    at: str
    """When (UTC, ISO 8601)."""


SHORTEST_DECODE_TOKENS = 8
"""A shorter answer says nothing of decode."""


class Evidence(Record):
    """One climb of the ladder."""

    kind: ClassVar[str] = "evidence"
    schema_version: ClassVar[int] = 3
    upgrades: ClassVar[Mapping[int, Upgrade]] = {1: _from_1, 2: _from_2}

    deployment: SafeName
    """Which deployment answered, or the address of a server that somebody else started."""
    engine: SafeName | None
    """Which engine; None if the server does not say."""
    engine_version: SafeName | None
    """Its version."""
    to_rung: str
    """The rung that was asked for."""
    observations: tuple[Observation, ...]
    """In the order they were made."""
    prompts: str | None = None
    """The prompt set and its digest."""
    budget_seconds: float | None = None
    """The time that the climb was given; None for as long as it takes."""
    ended: Reason | None = None
    """Why it ended where it did."""
    steps: tuple[Step, ...] = ()
    """Settings that were changed on the way, one at a time."""

    @property
    def passed(self) -> bool:
        """True if it serves: something was checked and nothing failed. Whether the model is able is asked apart."""
        verdicts = {observation.verdict for observation in self.observations}
        return "passed" in verdicts and "failed" not in verdicts and not self.unanswered

    @property
    def unanswered(self) -> bool:
        """True if the budget ended before a single answer of the model was seen: that it listens is no verdict."""
        return any(observation.left_out for observation in self.observations) and not any(
            observation.verdict in ("passed", "wrong")
            and (observation.rung not in _ASK_NOTHING or observation.measured.get("completion_tokens"))
            for observation in self.observations
        )

    @property
    def able(self) -> bool:
        """False if the model gave sound answers that are wrong."""
        return all(observation.verdict != "wrong" for observation in self.observations)

    @property
    def headline(self) -> Headline:
        """The one verdict that people read."""
        if not self.passed:
            return "not known" if self.unanswered and self.fault is None else "does not stand"
        return "stands" if self.able else "stands, but the model is weak"

    @property
    def reached(self) -> str | None:
        """The last rung that did not fail and of which something was seen to hold."""
        held = (rung for rung in reversed(self.rungs) if self.rung_verdict(rung) in ("passed", "wrong"))
        return next(held, None)

    @property
    def fault(self) -> Observation | None:
        """The first that failed."""
        return next((observation for observation in self.observations if observation.verdict == "failed"), None)

    @property
    def rungs(self) -> tuple[str, ...]:
        """Rungs that were looked at, in order."""
        return tuple(dict.fromkeys(observation.rung for observation in self.observations))

    def of(self, rung: str) -> tuple[Observation, ...]:
        return tuple(observation for observation in self.observations if observation.rung == rung)

    def not_run(self, rung: str | None = None) -> int:
        """Checks of the rung, or of all, that this machine could not make."""
        seen = self.observations if rung is None else self.of(rung)
        return sum(observation.verdict == "skipped" and observation.reason.startswith(NOT_RUN) for observation in seen)

    def decode_rates(self) -> tuple[float, ...]:
        """tok/s of the answers that are long enough to tell."""
        return tuple(
            observation.measured["decode_tokens_per_second"]
            for observation in self.observations
            if "decode_tokens_per_second" in observation.measured
            and observation.measured.get("completion_tokens", 0) >= SHORTEST_DECODE_TOKENS
        )

    def longest_prefill(self) -> tuple[float, int] | None:
        """tok/s and tokens of the prompt of which most was computed."""
        prefills = [
            observation.measured
            for observation in self.observations
            if "prefill_tokens_per_second" in observation.measured
        ]
        if not prefills:
            return None
        longest = max(prefills, key=lambda seen: seen.get("prompt_tokens", 0) - seen.get("cached_tokens", 0))
        return longest["prefill_tokens_per_second"], int(longest.get("prompt_tokens", 0))

    def rung_verdict(self, rung: str) -> Verdict:
        verdicts = {observation.verdict for observation in self.of(rung)}
        for verdict in ("failed", "wrong", "passed", "unsupported"):
            if verdict in verdicts:
                return verdict
        return "skipped"
