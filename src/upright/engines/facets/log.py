"""What an engine prints, as the rest of the house reads it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from upright.engines.memory_report import MemoryReport


def _nothing(_: str) -> MemoryReport:
    return MemoryReport()


@dataclass(frozen=True)
class Log:
    """Its sentences. An engine that says nothing here is not misread as another."""

    memory: Callable[[str], MemoryReport] = _nothing
    """What its log says about its memory; nothing that it does not say."""
    maps_weights: bool = False
    """Whether the kernel maps its weights from the file: they are no memory that a process made."""
    clears_cache: bool = False
    """Whether it writes to its cache when it makes it; else a block is touched when it is first used."""
