"""How an engine spells what it counts about itself, in Prometheus text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Labelled:
    """Figures that stand in the labels of a gauge that is always 1."""

    metric: str
    summed: Mapping[str, str]
    """Our field -> the label; of replicas they add up."""
    first: Mapping[str, str] = field(default_factory=dict)
    """The same, alike in all of them."""


@dataclass(frozen=True)
class MetricNames:
    """Our fields (`endpoint.metrics.Metrics`) -> the engine's names, newest first. What is not here it does not say."""

    title: str = ""
    """Whose names they are; a fork may use its origin's."""
    prefix: str = ""
    """What the names begin with: whose page it is."""
    written: Mapping[str, str] = field(default_factory=dict)
    """Other spellings of the prefix -> the prefix."""
    fields: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    histograms: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """first_token, token, request and queue, in seconds."""
    steps: tuple[str, ...] = ()
    """What moves with every step of the engine, also inside one long request."""
    steps_are: str = "steps"
    responses: Mapping[str, str] = field(default_factory=dict)
    """Counters of a web server's answers -> the label that holds the status."""
    positions: tuple[str, ...] = ()
    """Guesses that held, by position."""
    units: Mapping[str, float] = field(default_factory=dict)
    """Names whose figures are of one rank -> the bytes of their unit."""
    labelled: Labelled | None = None
    ranks_repeat: bool = False
    """Whether ranks of one engine repeat each other's figures."""
    remarks: Mapping[str, str] = field(default_factory=dict)
    """What a reader of a figure should know of this engine; by our figure's name."""


NOT_KNOWN = MetricNames()
