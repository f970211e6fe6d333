"""`upright logs`."""

from __future__ import annotations

import time
from pathlib import Path

import click

from upright.cli.options import deployment_argument


@click.command()
@deployment_argument
@click.option("-f", "--follow", is_flag=True, help="Keep printing while the engine runs.")
@click.option("-n", "--lines", type=click.IntRange(0), help="Only the last LINES lines.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON string a line.")
def command(deployment: str | None, follow: bool, lines: int | None, as_json: bool) -> None:
    """Show an engine's log."""
    from upright import store
    from upright.launching import status
    from upright.records.deployment import RUNNING

    directory = store.find(deployment)
    position = _print(directory.log, 0, lines, as_json)
    while follow and status(directory).state in RUNNING:
        time.sleep(0.3)
        position = _print(directory.log, position, None, as_json)


def _print(log: Path, position: int, lines: int | None, as_json: bool) -> int:
    """Print from `position` on and return where it ended."""
    import json
    from collections import deque

    if not log.exists():
        return 0
    with log.open(errors="replace") as file:
        file.seek(position)
        chosen = file if lines is None else deque(file, maxlen=lines)
        for line in chosen:
            text = line.rstrip("\n")
            click.echo(json.dumps(text, ensure_ascii=False) if as_json else text)
        return log.stat().st_size if lines is not None else file.tell()
