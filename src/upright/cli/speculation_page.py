"""Speculation -> what a person reads in a terminal: the verdict of each cell, what it cost, and one recommendation."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from upright.proving.speculation_verdict import percent
from upright.records.speculation import Speculation, SpeculationCell, Tried

_COLOURS = {"wins": "green", "kept": "green", "loses": "red", "damages": "red", "fell": "red", "stepped back": "yellow"}


def speculation_page(console: Console, record: Speculation) -> None:
    for tried in record.tried:
        outcome = (tried.outcome, _COLOURS.get(tried.outcome, ""))
        console.print(Text.assemble((tried.name, "bold"), " ", outcome, f": {tried.reason}"))
        if any(cell.verdict != "not measurable" for cell in tried.cells):
            console.print(_cells(tried))
        for words in (*_answers(tried), *_guesses(tried), *tried.notes, *_published(tried)):
            console.print(Text(f"  {words}", style="dim"))
    console.print(Text(record.recommendation, style="bold"))


def _cells(tried: Tried) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for heading in ("prompt", "at once", "without", "with"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("difference", no_wrap=True)
    table.add_column("held", justify="right", no_wrap=True)
    table.add_column("verdict", overflow="fold")
    for cell in tried.cells:
        table.add_row(*_row(cell))
    return table


def _row(cell: SpeculationCell) -> tuple[str | Text, ...]:
    held = "–" if cell.acceptance is None else f"{100 * cell.acceptance:.0f} %"
    return (
        f"{cell.shape.prompt_tokens:,}",
        f"{cell.shape.concurrency:,}",
        _speed(cell.base_tokens_per_second),
        _speed(cell.tokens_per_second),
        percent(cell.output) if cell.output else "–",
        held,
        Text(cell.verdict, style=_COLOURS.get(cell.verdict, "")),
    )


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
