"""`upright logs`."""

from __future__ import annotations

import json
from pathlib import Path

import click

from upright.cli.options import deployment_argument
from upright.cli.output import say

_LONGEST_LINE = 10_000


@click.command()
@deployment_argument
@click.option("-f", "--follow", is_flag=True, help="Keep printing while the engine runs, over its restarts too.")
@click.option("-n", "--lines", type=click.IntRange(0), help="Only the last LINES lines.")
@click.option("-p", "--previous", is_flag=True, help="The log of the start before this one.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON string a line.")
def command(deployment: str | None, follow: bool, lines: int | None, previous: bool, as_json: bool) -> None:
    """Show an engine's log."""
    from upright import store
    from upright.errors import UsageError
    from upright.launching import logs

    directory = store.find(deployment)
    log = directory.log
    if previous:
        older = logs.previous(directory)
        if not older or follow:
            why = "a log of the past has an end" if older else f"{directory.name} was started only once"
            raise UsageError(f"{why}: there is nothing to show", hint=f"upright logs {directory.name}")
        log = older[-1]
    position = _print(log, lines, as_json)
    if not follow:
        return
    printed = _Lines(as_json)
    try:
        for piece in logs.follow(directory, position):
            printed.take(piece)
    except KeyboardInterrupt:
        pass  # the engine goes on; so may whoever looked
    printed.end()
    say("next: upright ps")


def _print(log: Path, lines: int | None, as_json: bool) -> int:
    """Prints what is there, or the end of it, and returns where that ended."""
    from collections import deque

    if not log.exists():
        return 0
    with log.open("rb") as file:
        for raw in file if lines is None else deque(file, maxlen=lines):
            _say_line(raw.decode(errors="replace").rstrip("\n"), as_json)
        return file.tell()


class _Lines:
    """Pieces of a log -> whole lines, as soon as they are whole."""

    def __init__(self, as_json: bool) -> None:
        self.as_json = as_json
        self.rest = ""

    def take(self, piece: str) -> None:
        *whole, self.rest = (self.rest + piece).split("\n")
        for line in whole:
            _say_line(line, self.as_json)

    def end(self) -> None:
        if self.rest:
            _say_line(self.rest, self.as_json)


def _say_line(line: str, as_json: bool) -> None:
    """What a carriage return would hide stays: each piece is a line. Nobody reads one longer than this on a screen."""
    if as_json:
        click.echo(json.dumps(line, ensure_ascii=False))
        return
    for piece in line.rstrip("\r").split("\r"):
        more = f"… ({len(piece):,} characters)" if len(piece) > _LONGEST_LINE else ""
        click.echo(piece[:_LONGEST_LINE] + more)
