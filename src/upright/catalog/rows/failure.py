"""A line in a log -> what it means and what would cure it, as data."""

from __future__ import annotations

import re
from functools import cached_property
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from upright.catalog.rows.base import Range, Row, Words
from upright.catalog.rows.engine import Engine
from upright.records.base import Part

Severity = Literal["fatal", "crash", "hang", "corruption", "request", "slow", "information"]
Cure = Literal[
    "set_flag", "unset_flag", "raise_flag", "lower_flag", "set_env", "unset_env",
    "use_version", "use_artifact", "by_hand",
]  # fmt: skip


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"is not a regular expression: {error}") from None
    return text


class Remedy(Part):
    """One change that may cure it. What can be done to a recipe is data; the rest is a step by hand."""

    do: Cure
    """What kind of change."""
    engine: Engine | None = None
    """Only for this engine; None for all engines of the row."""
    name: str | None = None
    """The flag or variable."""
    value: str | None = None
    """The new value, or the version range."""
    why: Words
    """Why it helps, or the step itself."""

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.do.endswith(("_flag", "_env")) and self.name is None:
            raise ValueError(f"{self.do} needs the name of the flag or variable")
        if self.do in ("set_env", "use_version") and self.value is None:
            raise ValueError(f"{self.do} needs a value")
        return self


class Seen(Part):
    """A real line."""

    line: Words
    """As the engine printed it."""
    source: Words
    """Where it was printed."""


class FailureRow(Row):
    """One way to fall. Two rows never claim the same line."""

    title: Words
    """One line for people."""
    engines: Annotated[tuple[Engine | Literal["any"], ...], Field(min_length=1)]
    """Whose log it is."""
    versions: Range = "*"
    """Versions that print it."""
    where: Literal["log", "kernel", "answer"] = "log"
    """The engine's log, the kernel's log, or an answer of the model."""
    severity: Severity
    """fatal at start, crash under load, hang, corruption of answers, request lost, slow, or information."""
    pattern: Annotated[str, AfterValidator(_pattern)]
    """Regular expression, searched in a line."""
    silence_seconds: int | None = None
    """A hang: the line is normal, and means something only if nothing follows it for so long."""
    when: str | None = None
    """What else is true then; several causes can share a line."""
    cause: Words
    """Why it happens."""
    remedies: Annotated[tuple[Remedy, ...], Field(min_length=1)]
    """What may cure it, the likeliest first."""
    seen: tuple[Seen, ...] | Literal["none"]
    """Real lines with their sources, or `none`."""

    @model_validator(mode="after")
    def _hangs_are_silences(self) -> Self:
        if (self.severity == "hang") != (self.silence_seconds is not None):
            raise ValueError("silence_seconds belongs to a hang, and every hang needs it")
        if self.seen == ():
            raise ValueError("seen holds real lines, or says none")
        return self

    @property
    def alarms(self) -> bool:
        """Whether the line alone is a reason to worry."""
        return self.severity not in ("information", "hang")

    @cached_property
    def _compiled(self) -> re.Pattern[str]:
        return re.compile(self.pattern)

    def matches(self, line: str) -> bool:
        return self._compiled.search(line) is not None
