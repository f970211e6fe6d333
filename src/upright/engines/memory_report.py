"""An engine's log -> what it says about its memory, by device.

Each engine brings rows of spellings; this module applies them. A figure is a Reading with the line that it was read
from. What the log does not say is not there: nothing is guessed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from upright.base.units import GIB, MIB

MemoryTerm = Literal[
    "weights", "kv_cache", "compute", "output", "graphs", "graphs_reserved", "activations", "non_torch", "runtime",
    "requested", "total", "free_before", "free_loaded", "free_after",
    "kv_tokens", "context_tokens", "concurrency", "capture_seconds",
]  # fmt: skip
Keep = Literal["last", "first", "sum"]
HOST = "host"
_COLOUR = re.compile(r"\x1b?\[\d+(?:;\d+)*m")


@dataclass(frozen=True)
class Reading:
    """One figure: bytes, or tokens, seconds and times where the name says so."""

    what: MemoryTerm
    value: float
    line: str
    """Where it was read, as the engine wrote it."""
    device: str | None = None
    """`gpu0`, `host`; None if it is about the engine as a whole."""
    rounding: float = 0.0
    """How far the true figure may be off because the engine rounds: half of its last digit."""


class Rank(NamedTuple):
    """A worker of an engine that is spread over GPUs."""

    replica: int = 0
    stage: int = 0
    tensor: int = 0
    process: int = 0
    """Its number, where the log tells nothing better."""


class Spelling(NamedTuple):
    """How some versions of an engine write a figure."""

    what: MemoryTerm
    pattern: re.Pattern[str]
    """Group `value`; with `more`, that is added; with `device`, the engine says where."""
    unit: float = GIB
    keep: Keep = "last"
    """Of several lines for one device the last counts, or the first, or they are parts of a whole."""
    whole: bool = False
    """About the engine, not a device."""


@dataclass(frozen=True)
class MemoryReport:
    """Everything that a log says about memory, of the last start in it."""

    readings: tuple[Reading, ...] = ()

    def of(self, what: MemoryTerm, device: str | None = None) -> Reading | None:
        return next((reading for reading in self.readings if (reading.what, reading.device) == (what, device)), None)

    def devices(self) -> tuple[str, ...]:
        """Devices that the log names, GPUs in order, system RAM last."""
        names = {reading.device for reading in self.readings if reading.device is not None}
        return tuple(sorted(names, key=lambda name: (name == HOST, len(name), name)))


def of_last_start(log: str, start: re.Pattern[str], read: Callable[[str], MemoryReport]) -> MemoryReport:
    """A log is appended to when an engine is started again: only the last life that says something counts."""
    for start_match in reversed(list(start.finditer(log))):
        if (report := read(log[start_match.start() :])).readings:
            return report
    return read(log)


def gpu_of_rank(ranks: Iterable[Rank]) -> dict[Rank, str]:
    """Ranks -> GPUs. Ranks that differ in their tensor rank alone are numbered by it, stages after each other."""
    known = sorted(set(ranks))
    tensor_size = max((rank.tensor for rank in known), default=0) + 1
    if len({rank.tensor for rank in known}) == len(known):
        return {rank: f"gpu{rank.tensor}" for rank in known}
    if not any(rank.replica or rank.process for rank in known):
        return {rank: f"gpu{rank.stage * tensor_size + rank.tensor}" for rank in known}
    return {rank: f"gpu{index}" for index, rank in enumerate(known)}


def readings(
    log: str, spellings: Sequence[Spelling], device_of: Callable[[str, str | None], str | None]
) -> MemoryReport:
    """`device_of` takes the line and the device it names, and gives ours; None to leave the reading out."""
    readings_by_key: dict[tuple[MemoryTerm, str | None], Reading] = {}
    for line in _lines(log):
        for spelling in spellings:
            if (match := spelling.pattern.search(line)) is None:
                continue
            groups = match.groupdict()
            device = None if spelling.whole else device_of(line, groups.get("device"))
            if device is None and not spelling.whole:
                continue
            key = (spelling.what, device)
            new = _reading(spelling, groups, line, device)
            readings_by_key[key] = _kept(spelling.keep, readings_by_key.get(key), new)
    return MemoryReport(tuple(readings_by_key.values()))


def spelling(
    what: MemoryTerm, pattern: str, *, keep: Keep = "last", whole: bool = False, unit: float = GIB
) -> Spelling:
    """A row: `#` in the pattern is the figure, with or without thousands' commas."""
    return Spelling(what, re.compile(pattern.replace("#", r"(?P<value>\d[\d,]*(?:\.\d+)?)")), unit, keep, whole)


def in_mebibytes(what: MemoryTerm, pattern: str, *, keep: Keep = "last") -> Spelling:
    return spelling(what, pattern, keep=keep, unit=MIB)


def count_pattern(what: MemoryTerm, pattern: str) -> Spelling:
    """A figure of the whole engine that is no memory."""
    return spelling(what, pattern, whole=True, unit=1)


def _reading(spelling: Spelling, groups: dict[str, str | None], line: str, device: str | None) -> Reading:
    texts = [text for name in ("value", "more") if (text := groups.get(name))]
    amount = sum(float(text.replace(",", "")) for text in texts) * spelling.unit
    decimals = len(texts[0].partition(".")[2])
    rounding = 0.5 * 10**-decimals * spelling.unit * len(texts)
    return Reading(spelling.what, amount, line, device, 0.0 if spelling.whole else rounding)


def _kept(keep: Keep, known: Reading | None, new: Reading) -> Reading:
    if known is None or keep == "last":
        return new
    if keep == "first":
        return known
    return replace(new, value=known.value + new.value, rounding=known.rounding + new.rounding)


def _lines(log: str) -> Iterator[str]:
    for line in log.splitlines():
        yield _COLOUR.sub("", line).strip()
