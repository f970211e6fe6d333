"""What an engine prints, as the rest of the house reads it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

from upright.engines.memory_report import MemoryReport
from upright.facts.records.deployment import Phase


class Mark(NamedTuple):
    """A line that every run of an engine prints when that happens."""

    means: Literal["start", "ready", "answered", "shutdown", "death"]
    pattern: str


READY = (r"(?<!\d\] INFO:     )Application startup complete", r"listening on (?:https?|unix)://")
"""What servers print when they stand, whatever engine they belong to: uvicorn, and llama.cpp's. SGLang's uvicorn, whose
lines begin with the time, stands before the engine has warmed up."""


class RequestTiming(NamedTuple):
    """One request by the engine's own clock."""

    prompt_tokens: int
    """Those that it computed: what its cache had is not among them."""
    prompt_seconds: float
    output_tokens: int
    output_seconds: float


def _nothing(_: str) -> MemoryReport:
    return MemoryReport()


def _untimed(_: str) -> tuple[RequestTiming, ...]:
    return ()


@dataclass(frozen=True)
class Log:
    """Its sentences. An engine that says nothing here is not misread as another."""

    memory: Callable[[str], MemoryReport] = _nothing
    """What its log says about its memory; nothing that it does not say."""
    timings: Callable[[str], tuple[RequestTiming, ...]] = _untimed
    """How long it worked on each request, in the order in which they ended, where it says so."""
    timed: str | None = None
    """A pattern of the lines that say so."""
    shape: str | None = None
    """A pattern of lines that only its log has; a text that merely speaks of an engine is not its log."""
    hints: str | None = None
    """A pattern of its files, functions, flags and variables, by which a text is told that is no log of it."""
    fork_of: str | None = None
    """The engine whose lines this log holds too: a line of its own is enough to tell it."""
    family_shape: str | None = None
    """The same for lines that others of its family print too."""
    marks: tuple[Mark, ...] = ()
    """Beside those that all print."""
    serves: str | None = None
    """A pattern of what it prints only while it stands."""
    answers: str | None = None
    """A pattern of what it prints only when it has answered a request, beside what all servers print then."""
    complaint: str | None = None
    """A pattern of its complaints, beside exceptions and what every program writes."""
    echo: str | None = None
    """A pattern of lines that only say that something above went wrong."""
    bars: tuple[tuple[str, Phase], ...] = ()
    """What stands before a bar of tqdm."""
    phases: tuple[tuple[str, Phase], ...] = ()
    """Lines that begin a phase."""
    dots: bool = False
    """Whether it prints a dot for each percent of its weights."""
    silent_hint: str | None = None
    """Why its log may say nothing about memory."""
    maps_weights: bool = False
    """Whether the kernel maps its weights from the file: they are no memory that a process made."""
    tracker: str | None = None
    """Where its issues are filed."""
    clears_cache: bool = False
    """Whether it writes to its cache when it makes it; else a block is touched when it is first used."""
