"""`upright read SOURCE`."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import click

from upright.cli.output import Output, output_options

if TYPE_CHECKING:
    from rich.console import Console

    from upright.records.model import Model


@click.command()
@click.argument("source", metavar="MODEL")
@output_options
def command(source: str, output: Output) -> None:
    """Read what a model is made of, from its headers."""
    from upright.reading import read

    model = read(source)
    output.answer(model, lambda console: _page(model, console))
    output.next("plan", source)


def _page(model: Model, console: Console) -> None:
    from rich.table import Table

    from upright.units import size

    by_group: dict[str, int] = defaultdict(int)
    for line in model.weights:
        by_group[line.group] += line.bytes
    table = Table(title=f"{model.name}: {size(model.tensor_bytes)}", title_justify="left")
    table.add_column("group")
    table.add_column("bytes", justify="right")
    for group, count in sorted(by_group.items(), key=lambda item: -item[1]):
        table.add_row(group, size(count))
    console.print(table)
