"""A line in a log -> what it means and what would cure it, as data."""

import re
from collections.abc import Mapping
from functools import cached_property
from types import MappingProxyType
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from upright.facts.catalog.rows.base import NonEmptyText, Row, VersionRange
from upright.facts.catalog.rows.engine import Engine
from upright.facts.records.base import Part
from upright.facts.records.diagnosis import Knowledge, Remedy, Severity


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"is not a regular expression: {error}") from None
    return text


class SeenLine(Part):
    """A real line."""

    line: NonEmptyText
    """As the engine printed it."""
    source: NonEmptyText
    """Where it was printed."""
    beside: NonEmptyText | None = None
    """Another line of the same start, by which a row with `beside` is told from its neighbours."""


class Suspected(Part):
    """One of several causes of a line that does not tell them apart, and what does."""

    cause: NonEmptyText
    """Why it happens, if it is this one."""
    test: NonEmptyText
    """What decides whether it is: something to look at, or to try."""
    beside: Annotated[str, AfterValidator(_pattern)] | None = None
    """What speaks for it in the beginning or the end of the same log: it is then ranked first."""


FailurePart = Literal[
    "answers", "attention", "cache", "compilation", "container", "disk", "gpu", "gpu-code", "gpu-memory",
    "host-memory", "hub", "kv-transfer", "links", "lora", "media", "model-class", "moe-gemm", "packages", "parallel",
    "process", "quantisation", "request", "server", "settings", "speculation", "speed", "structured-output",
    "template", "thinking", "tokenizer", "tool-calls", "weights",
]  # fmt: skip
"""What fails. `process` is how it ends, where nothing says what ended it."""
_KNOWN_BY: Mapping[str, Knowledge] = MappingProxyType({"cause": "line", "class": "class"})
Specificity = Literal["cause", "class", "family", "topic", "refusal", "consequence"]
SPECIFICITY_ORDER: Mapping[Specificity, int] = MappingProxyType(
    {"cause": 0, "class": 1, "family": 2, "topic": 3, "refusal": 4, "consequence": 5}
)
"""Which row is believed first where several claim a line, or a log."""


class FailureRow(Row):
    """One way to fall. Two rows that tell the same never claim the same line."""

    title: NonEmptyText
    """One line for people."""
    engines: Annotated[tuple[Engine, ...], Field(min_length=1)]
    """Whose log it is."""
    part: FailurePart | None = None
    """What fails; None for a row of one's own that does not say."""
    knows: Knowledge | None = None
    """What the row is made from, where `tells` and `where` do not say it: see `knowledge`."""
    versions: VersionRange = "*"
    """Versions that print it."""
    tells: Specificity = "cause"
    """cause: its own line; class, family: any of a kind; topic: its part; refusal: words; consequence: of a fall."""
    where: Literal["log", "kernel", "host", "answer", "evidence", "frame", "words", "part"] = "log"
    """Where its pattern is looked for: logs, the machine, an answer, evidence, a frame, a person's words, a part."""
    severity: Severity
    """fatal at start, crash, hang, corruption of answers, request lost, symptom (look above), slow, information."""
    pattern: Annotated[str, AfterValidator(_pattern)]
    """Regular expression, searched in a line."""
    silence_seconds: int | None = None
    """A hang: the line is normal, and means something only if nothing follows it for so long."""
    repeats: int | None = None
    """A hang: so many times the very same words at the end of a log mean it too, however new the last line is."""
    beside: Annotated[str, AfterValidator(_pattern)] | None = None
    """Several causes share the line: this one only if another line of the same start matches this expression."""
    when: str | None = None
    """What else is true then; several causes can share a line."""
    cause: NonEmptyText
    """Why it happens."""
    test: str | None = None
    """Of a part: what decides whether it is the one; rows of that part which are possibilities say it too."""
    suspects: tuple[Suspected, ...] = ()
    """Causes that share the line, the likeliest first, each with the test that decides."""
    remedies: Annotated[tuple[Remedy, ...], Field(min_length=1)]
    """What may cure it, the likeliest first."""
    seen: tuple[SeenLine, ...] | Literal["none"]
    """Real lines with their sources, or `none`."""

    @model_validator(mode="after")
    def _hangs_are_silences(self) -> Self:
        if (self.severity == "hang") != (self.silence_seconds is not None):
            raise ValueError("silence_seconds belongs to a hang, and every hang needs it")
        if self.seen == ():
            raise ValueError("seen holds real lines, or says none")
        return self

    @model_validator(mode="after")
    def _remedies_speak_of_known_things(self) -> Self:
        group_names = set(re.compile(self.pattern).groupindex)
        for remedy in self.remedies:
            for word in re.findall(r"\{(\w+)\}", f"{remedy.name or ''} {remedy.value or ''}"):
                if word not in group_names:
                    raise ValueError(f"a remedy speaks of {{{word}}}, which the pattern does not name")
        for word in re.findall(r"\{(\w+)\}", f"{self.title} {self.cause}"):
            if word not in group_names:
                raise ValueError(f"title or cause speaks of {{{word}}}, which the pattern does not name")
        return self

    @property
    def knowledge(self) -> Knowledge:
        """What it knows: this line, this class of lines, this part of an engine, or these words. The first two name a
        cause, the others a possibility."""
        if self.knows is not None:
            return self.knows
        if self.where in ("frame", "words", "part"):
            return "words" if self.where == "words" else "part"
        return _KNOWN_BY.get(self.tells, "part")

    @property
    def alarms(self) -> bool:
        """Whether the line alone is a reason to worry."""
        return self.severity not in ("information", "hang")

    @cached_property
    def _compiled(self) -> re.Pattern[str]:
        return re.compile(self.pattern)

    def matches(self, line: str) -> bool:
        return self.match(line) is not None

    def match(self, line: str) -> re.Match[str] | None:
        return self._compiled.search(line)
