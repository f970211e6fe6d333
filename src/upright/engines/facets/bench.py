"""An engine's own load generator <-> its words, and what its result file says."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any, Protocol

from upright.facts.records.benchmark import Api, Shape, Spread


class BenchTarget(Protocol):
    """Where requests go."""

    @property
    def base_url(self) -> str: ...
    @property
    def model(self) -> str: ...
    @property
    def api(self) -> Api: ...
    @property
    def path(self) -> str: ...


@dataclass(frozen=True)
class Foreign:
    """What another tool measured; None where it says nothing."""

    program: str
    version: str | None
    shape: Shape
    seconds: float
    sent: int
    succeeded: int
    output_tokens_per_second: float
    total_tokens_per_second: float
    requests_per_second: float
    peak_tokens_per_second: float | None = None
    ttft: Spread | None = None
    tpot: Spread | None = None
    itl: Spread | None = None
    latency: Spread | None = None
    prompt: Spread | None = None
    output: Spread | None = None
    in_flight_peak: int = 0
    errors: Mapping[str, int] = field(default_factory=dict)
    at: str = ""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class BenchTool:
    """One tool."""

    name: str
    program: str
    argv: Callable[[str, BenchTarget, Shape, PurePath, str | None, int], list[str]]
    """The program, where to, what, the folder for its result, a tokenizer, and a seed."""
    result: str
    """The file in that folder; `stdout.txt` is what it printed."""
    recognises: Callable[[Any], bool]
    """Whether a parsed file is a result of it."""
    read: Callable[[Any], list[Foreign]]
