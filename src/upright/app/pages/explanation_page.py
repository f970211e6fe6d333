"""Explanations -> pages."""

from __future__ import annotations

from textwrap import TextWrapper

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from upright.facts.catalog.explaining import Explanation

_WHOSE = {"user": " (your row)", "catalogue": " (row from a catalogue that you took)"}


def explanation_pages(console: Console, explanations: tuple[Explanation, ...]) -> None:
    for number, explanation in enumerate(explanations):
        if number:
            console.print()
        _page(console, explanation)


def _page(console: Console, explanation: Explanation) -> None:
    whose = _WHOSE.get(explanation.owner, "")
    console.print(Text.assemble((explanation.name, "bold"), f"  {explanation.kind}{whose}"))
    if explanation.title and explanation.title != explanation.name:
        console.print(Padding(Text(explanation.title), (0, 0, 0, 2)))
    console.print()
    for paragraph in (explanation.what, explanation.matters):
        if paragraph:
            console.print(Padding(Text(paragraph), (0, 0, 1, 2)))
    for pairs in (explanation.facts, explanation.parts):
        if pairs:
            console.print(Padding(_pairs(pairs), (0, 0, 1, 2)))
    if explanation.do:
        console.print(Padding(Text("What to do"), (0, 0, 0, 2)))
        _list(console, explanation.do)
        console.print()
    if explanation.sources:
        grade = f" (grade {explanation.grade})" if explanation.grade else ""
        console.print(Padding(Text(f"Sources{grade}", style="dim"), (0, 0, 0, 2)))
        _list(console, explanation.sources, "dim")


def _pairs(pairs: tuple[tuple[str, str], ...]) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True, style="dim")
    table.add_column(overflow="fold")
    for label, content in pairs:
        table.add_row(Text(label), Text(content))
    return table


def _list(console: Console, entries: tuple[str, ...], style: str = "") -> None:
    """Broken between words only: an address stays whole, wherever the page ends."""
    wrap = TextWrapper(
        console.width, initial_indent="  - ", subsequent_indent="    ", break_long_words=False, break_on_hyphens=False
    )
    for entry in entries:
        console.print(Text(wrap.fill(entry), style=style), soft_wrap=True)
