"""Rows and sentences about speculative decoding, the same for HTML and a terminal."""

from __future__ import annotations

from dataclasses import dataclass

from upright.evidence.report import charts
from upright.facts.records.speculation import Speculation, SpeculationCell, Tried
from upright.proof.ladder.speculation_verdict import percent

_HEADINGS = ("cell", "without", "with", "difference", "held")


@dataclass(frozen=True)
class CandidateRow:
    """One candidate, ready to be shown."""

    tried: Tried
    headings: tuple[str, ...]
    rows: list[tuple[str, ...]]
    """One for each cell, its verdict last; empty if none could be measured."""
    notes: list[str]
    chart: charts.Chart | None


def candidate_rows(record: Speculation, *, draw: bool = True) -> list[CandidateRow]:
    return [_guessed(tried, draw) for tried in record.tried]


def _guessed(tried: Tried, draw: bool) -> CandidateRow:
    measured = [cell for cell in tried.cells if cell.verdict != "not measurable"]
    theirs = any(cell.published for cell in tried.cells)
    headings = (*_HEADINGS, *(("published",) if theirs else ()), "verdict")
    rows = [_row(cell, theirs) for cell in tried.cells] if measured else []
    chart = charts.bars(_bars(measured), "output tokens a second") if draw else None
    return CandidateRow(
        tried, headings, rows, [*_answers(tried), *_guesses(tried), *tried.notes, *_published(tried)], chart
    )


def _row(cell: SpeculationCell, theirs: bool) -> tuple[str, ...]:
    published = f"{100 * (cell.published.factor - 1):+.0f} %" if cell.published else "–"
    return (
        f"{cell.shape.prompt_tokens:,}x{cell.shape.concurrency}",
        _speed(cell.base_tokens_per_second),
        _speed(cell.tokens_per_second),
        percent(cell.output) if cell.output else "–",
        "–" if cell.acceptance is None else f"{100 * cell.acceptance:.0f} %",
        *((published,) if theirs else ()),
        cell.verdict,
    )


def _bars(cells: list[SpeculationCell]) -> list[tuple[str, str, float]]:
    bar_parts = []
    for cell in cells:
        name = f"{cell.shape.prompt_tokens:,} in, {cell.shape.concurrency:,} at once"
        bar_parts.append(("without", name, cell.base_tokens_per_second or 0.0))
        bar_parts.append(("with", name, cell.tokens_per_second or 0.0))
    return bar_parts


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
    """Whose figures stand beside ours: another box, and mostly another model."""
    rows: dict[str, list[str]] = {}
    for cell in tried.cells:
        if cell.published is not None:
            rows.setdefault(cell.published.what, []).append("/".join(cell.published.rows))
    return [f"published: {what} ({', '.join(dict.fromkeys(names))})" for what, names in rows.items()]
