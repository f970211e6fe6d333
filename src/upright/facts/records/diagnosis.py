"""Why an engine fell, and what was tried until it stood."""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, Self

from pydantic import model_validator

from upright.facts.records.base import Part, QuotedText, Record, Upgrade

Severity = Literal["fatal", "crash", "hang", "corruption", "request", "symptom", "slow", "information"]
Knowledge = Literal["line", "class", "part", "words"]
CERTAIN: tuple[Knowledge, ...] = ("line", "class")
"""What names a cause; the others are possibilities."""
MOST_POSSIBILITIES = 3
Cure = Literal[
    "set_flag", "unset_flag", "raise_flag", "lower_flag", "set_env", "unset_env", "other_port",
    "use_version", "use_image", "use_patch", "use_engine", "use_artifact", "by_hand",
]  # fmt: skip


class Remedy(Part):
    """One change that may cure it. What can be done to a recipe is data; the rest is a step by hand."""

    do: Cure
    """What kind of change."""
    engine: str | None = None
    """Only for this engine; None for all engines of the row."""
    name: str | None = None
    """The flag or variable; `{word}` is the part of the line that the pattern calls so."""
    value: str | None = None
    """The new value, version range, image, patch or engine; `{word}` as in the name."""
    why: str
    """Why it helps, or the step itself."""
    commands: tuple[str, ...] = ()
    """A step by hand as one types it, in order."""

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.do.endswith(("_flag", "_env")) and self.name is None:
            raise ValueError(f"{self.do} needs the name of the flag or variable")
        if self.do in ("set_env", "use_version", "use_image", "use_patch", "use_engine") and self.value is None:
            raise ValueError(f"{self.do} needs a value")
        return self


class Sighting(Part):
    """A line, and where it stands."""

    where: Literal["log", "kernel", "host", "answer", "evidence"] = "log"
    """The engine's log, the kernel's, what the machine says, an answer of the model, or what `prove` wrote down."""
    number: int | None = None
    """Its number in the log, from 1; None outside the log."""
    rank: str | None = None
    """The process that printed it, as the engine calls it; None if it does not say."""
    text: QuotedText
    """The line, without colours and without what a container or a journal puts before it."""


class RankedCause(Part):
    """One of several causes that a line may have."""

    cause: str
    """Why it happened, if it is this one."""
    test: str
    """What decides: something to look at, or to try."""
    shown: bool = False
    """Whether another line of the same start speaks for it; such causes come first."""


class Finding(Part):
    """A row of the catalogue that this log bears out."""

    code: str
    """The row's name: `upright explain CODE`."""
    title: str
    """What happened, in a line."""
    severity: Severity
    """fatal at start, crash under load, hang, corruption, request lost, symptom of another cause, slow, information."""
    cause: str
    """Why it happens."""
    when: str | None = None
    """What else is true then; several causes can share a line."""
    causes: tuple[RankedCause, ...] = ()
    """Where a line has several causes, each with the test that decides, the likeliest first."""
    knows: Knowledge | None = None
    """What the row knows; of a part or of words only a possibility. None in records that did not say."""
    part: str | None = None
    """What fails, as the catalogue calls it."""
    test: str | None = None
    """Of a possibility, what decides whether it is this one: something to look at, or to try."""
    seen: Sighting
    """The first line that shows it."""
    count: int = 1
    """Lines that show it."""
    ranks: tuple[str, ...] = ()
    """Processes that printed it, in order of their first line."""
    remedies: tuple[Remedy, ...] = ()
    """What may cure it, the likeliest first, for this engine."""
    sources: tuple[str, ...] = ()
    """Where that was learned."""


def _from_1(content: dict[str, Any]) -> dict[str, Any]:
    """Schema 1 did not ask whether the engine had come up: nobody knows."""
    return content


def _from_2(content: dict[str, Any]) -> dict[str, Any]:
    """Schema 2 ranked no causes."""
    return content


def _from_3(content: dict[str, Any]) -> dict[str, Any]:
    """Schema 3 named every code as the cause."""
    return {**content, "certainty": "cause"} if content.get("failed") and content.get("code") else content


class Diagnosis(Record):
    """What a log and its machine say about a failure: the first cause, and what followed from it."""

    kind: ClassVar[str] = "diagnosis"
    schema_version: ClassVar[int] = 4
    upgrades: ClassVar[Mapping[int, Upgrade]] = {1: _from_1, 2: _from_2, 3: _from_3}

    subject: str
    """The log's path, or the deployment's name."""
    engine: str | None
    """Whose log it is, as told or as its lines show; None if neither is known."""
    failed: bool
    """Whether anything went wrong: a log that only warns is clean."""
    stood: bool | None = None
    """Whether the engine came up; a log may end before that and name no failure. None if it is no engine's log."""
    code: str | None = None
    """What answers best, or makes a run slow that did not fail; `certainty` says whether it is the cause."""
    certainty: Literal["cause", "possibly"] | None = None
    """What answers best, or makes slow a run that did not fail; `certainty`: whether it is the cause."""
    findings: tuple[Finding, ...] = ()
    """The cause first, then what else the log bears out, in its order."""
    excerpt: tuple[Sighting, ...] = ()
    """The shortest piece of the log that holds the cause: one line if a row knows it, the last words if none does."""
    row: str | None = None
    """A row of the catalogue to fill in, as YAML, when no row knows the cause."""
    log_lines: int = 0
    """Lines that were read."""
    log_bytes: int = 0
    """Bytes that were read."""
    starts: int = 0
    """Starts of the engine that the log shows; what came before the last one is not judged."""
    notes: tuple[str, ...] = ()
    """What a reader should know: how the engine was told, what could not be asked."""

    @property
    def cause(self) -> Finding | None:
        """The finding that everything else follows from; None where there are only possibilities."""
        return self.findings[0] if self.certainty == "cause" else None

    @property
    def possibilities(self) -> tuple[Finding, ...]:
        """The likeliest first, where nothing names the cause."""
        if self.certainty != "possibly":
            return ()
        named = [finding for finding in self.findings if self._may_be_the_cause(finding)]
        return tuple(named[:MOST_POSSIBILITIES])

    def _may_be_the_cause(self, finding: Finding) -> bool:
        slow = finding.severity == "slow" and finding.knows != "words" and finding.code != self.code
        return finding.severity not in ("symptom", "information") and not slow

    @property
    def likeliest(self) -> Finding | None:
        """The cause, or the first possibility."""
        return self.cause or next(iter(self.possibilities), None)


class Attempt(Part):
    """One start, and what came of it."""

    number: int
    """From 1."""
    at: str
    """When it began (UTC, ISO 8601)."""
    engine: str
    """Which engine."""
    recipe: str
    """Digest of the recipe."""
    change: Remedy | None = None
    """What was changed since the attempt before; None for the first."""
    result: Literal["ready", "partial", "failed"]
    """What came of it; partial if it answered, and then failed what it was asked."""
    code: str | None = None
    """Why it failed, as the catalogue calls it; None if it stands, or nobody knows."""
    said: QuotedText = ""
    """The line that shows it, or why the deployment failed, in its own words."""
    seconds: float
    """From the start to the first answer, or to the end."""


class Attempts(Record):
    """The way to a deployment that stands: each start, why it fell, what was changed."""

    kind: ClassVar[str] = "attempts"

    name: str
    """The deployment."""
    attempts: tuple[Attempt, ...] = ()
    """In order."""
    stands: bool = False
    """Whether the last one came up."""
    stopped: str | None = None
    """Why no further remedy was tried; None if it stands."""
