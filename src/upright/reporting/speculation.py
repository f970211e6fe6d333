"""Speculation -> what a page and a terminal say of it: the same rows and sentences for both."""

from __future__ import annotations

from dataclasses import dataclass

from upright.proving.speculation_verdict import percent
from upright.records.speculation import Speculation, SpeculationCell, Tried
from upright.reporting import charts

HEADINGS = ("prompt", "at once", "without", "with", "difference", "held", "verdict")


@dataclass(frozen=True)
class Guessed:
    """One candidate, ready to be shown."""

    tried: Tried
    rows: list[tuple[str, ...]]
    """One for each cell, by `HEADINGS`; empty if none could be measured."""
    notes: list[str]
    chart: charts.Chart | None


def guessed(record: Speculation, *, draw: bool = True) -> list[Guessed]:
    return [_guessed(tried, draw) for tried in record.tried]


def _guessed(tried: Tried, draw: bool) -> Guessed:
    measured = [cell for cell in tried.cells if cell.verdict != "not measurable"]
    rows = [_row(cell) for cell in tried.cells] if measured else []
    chart = charts.bars(_bars(measured), "output tokens a second") if draw else None
    return Guessed(tried, rows, [*_answers(tried), *_guesses(tried), *tried.notes, *_published(tried)], chart)


def _row(cell: SpeculationCell) -> tuple[str, ...]:
    return (
        f"{cell.shape.prompt_tokens:,}",
        f"{cell.shape.concurrency:,}",
        _speed(cell.base_tokens_per_second),
        _speed(cell.tokens_per_second),
        percent(cell.output) if cell.output else "–",
        "–" if cell.acceptance is None else f"{100 * cell.acceptance:.0f} %",
        cell.verdict,
    )


def _bars(cells: list[SpeculationCell]) -> list[tuple[str, str, float]]:
    found = []
    for cell in cells:
        name = f"{cell.shape.prompt_tokens:,} in, {cell.shape.concurrency:,} at once"
        found.append(("without", name, cell.base_tokens_per_second or 0.0))
        found.append(("with", name, cell.tokens_per_second or 0.0))
    return found


def _speed(value: float | None) -> str:
    return "–" if value is None else f"{value:,.1f}" if value < 100 else f"{value:,.0f}"


def _answers(tried: Tried) -> list[str]:
    if not tried.answers:
        return []
    right = "the others as right" if not tried.damage else f"{len(tried.damage)} wrong with it"
    others = f", {right}" if tried.answers_alike < tried.answers else ""
    return [f"answers: {tried.answers_alike} of {tried.answers} word for word as without it{others}"]


def _guesses(tried: Tried) -> list[str]:
    if not tried.drafted_tokens or tried.acceptance is None:
        return []
    at = " / ".join(f"{share:.2f}" for share in tried.acceptance_at or ())
    where = f"; by position {at}" if at else "; the engine does not count by position"
    return [f"guesses: {100 * tried.acceptance:.0f} % of {tried.drafted_tokens:,} held{where}"]


def _published(tried: Tried) -> list[str]:
    """What others saw, each pair once."""
    found = {cell.published.what: cell.published for cell in tried.cells if cell.published is not None}
    return [
        f"published: {100 * (each.factor - 1):+.0f} %, {each.what} ({each.rows[1]} against {each.rows[0]})"
        for each in found.values()
    ]
