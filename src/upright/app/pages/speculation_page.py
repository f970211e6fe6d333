"""Speculation -> what a person reads in a terminal: the verdict of each cell, what it cost, and one recommendation."""

from __future__ import annotations

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from upright.engines.speculation import Offer
from upright.evidence.report.speculation import candidate_rows
from upright.facts.records.speculation import Speculation

_COLOURS = {"wins": "green", "kept": "green", "loses": "red", "damages": "red", "fell": "red", "stepped back": "yellow"}
_TO_THE_LEFT = ("cell", "difference", "verdict")


def speculation_page(console: Console, record: Speculation) -> None:
    console.print()
    for guess in candidate_rows(record, draw=False):
        tried = guess.tried
        outcome = (tried.outcome, _COLOURS.get(tried.outcome, ""))
        console.print(Text.assemble((tried.name, "bold"), " ", outcome, f": {tried.reason}"))
        if guess.rows:
            table = Table(box=None, pad_edge=False, header_style="dim")
            for heading in guess.headings:
                table.add_column(heading, justify="left" if heading in _TO_THE_LEFT else "right", no_wrap=True)
            for *cells, verdict in guess.rows:
                table.add_row(*cells, Text(verdict, style=_COLOURS.get(verdict, "")))
            console.print(table)
        for note in guess.notes:
            console.print(Padding(Text(note, style="dim"), (0, 0, 0, 2)))
    console.print(Text(record.recommendation, style="bold"))


def offers_page(console: Console, offers: tuple[Offer, ...]) -> None:
    console.print()
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("--speculate", no_wrap=True)
    table.add_column("draft", overflow="fold")
    for offer in offers:
        table.add_row(offer.words, offer.about)
    console.print(table)
