"""Cells -> one row for each thing that was asked, with means over the repeats that are what they claim to be."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from upright.facts.records.benchmark import Cell, Shape
from upright.proof.benchmark.statistics import Mean, mean


@dataclass(frozen=True)
class Metric:
    """A column: how it is read from a cell, and which way is better."""

    name: str
    words: str
    unit: str
    of: Callable[[Cell], float | None]
    more_is_better: bool


def _of(spread: str, figure: str) -> Callable[[Cell], float | None]:
    """A time of nothing was not measured: tools write 0 for answers of one token."""
    return lambda cell: getattr(getattr(cell, spread), figure, None) or None


METRICS: tuple[Metric, ...] = (
    Metric("output", "output tokens a second", "tok/s", lambda cell: cell.output_tokens_per_second or None, True),
    Metric("total", "all tokens a second", "tok/s", lambda cell: cell.total_tokens_per_second or None, True),
    Metric("peak", "output tokens in the best second", "tok/s", lambda cell: cell.peak_tokens_per_second, True),
    Metric("user", "tokens a second that one user sees", "tok/s", lambda cell: cell.user_tokens_per_second, True),
    Metric("ttft", "time to first token", "s", _of("ttft_seconds", "mean"), False),
    Metric("ttft_p99", "time to first token, p99", "s", _of("ttft_seconds", "p99"), False),
    Metric("tpot", "time per output token", "s", _of("tpot_seconds", "mean"), False),
    Metric("itl", "between pieces of text", "s", _of("itl_seconds", "mean"), False),
    Metric("itl_p99", "between pieces, p99", "s", _of("itl_seconds", "p99"), False),
    Metric("latency", "a whole request", "s", _of("latency_seconds", "mean"), False),
    Metric("good", "requests that kept the promise", "%", lambda cell: cell.good_percent, True),
)
METRIC = {metric.name: metric for metric in METRICS}


@dataclass(frozen=True)
class ShapeRow:
    """All repeats of one shape of one subject."""

    subject: str
    shape: Shape
    cells: tuple[Cell, ...]

    @property
    def clean(self) -> tuple[Cell, ...]:
        """The repeats that nothing is wrong with."""
        return tuple(cell for cell in self.cells if not cell.marks)

    @property
    def marked(self) -> bool:
        """Whether no repeat is clean: what is shown is then what was seen, not what it claims to be."""
        return not self.clean

    @property
    def marks(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(words for cell in self.cells for words in cell.marks))

    @property
    def notes(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(words for cell in self.cells for words in cell.notes))

    def values(self, metric: str) -> list[float]:
        """Of the clean repeats; of the marked ones only if there are no others."""
        found = (METRIC[metric].of(cell) for cell in (self.clean or self.cells))
        return [value for value in found if value is not None]

    def mean(self, metric: str) -> Mean | None:
        return mean(self.values(metric))


def rows(cells: Iterable[Cell]) -> list[ShapeRow]:
    """In the order in which they were first measured."""
    groups: dict[tuple[str, str], list[Cell]] = {}
    for cell in cells:
        groups.setdefault((cell.subject, cell.key), []).append(cell)
    return [ShapeRow(group[0].subject, group[0].shape, tuple(group)) for group in groups.values()]
