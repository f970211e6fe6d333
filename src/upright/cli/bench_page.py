"""A Benchmark -> what a person reads in a terminal, and the bar that moves while it is made."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from upright import units
from upright.benchmarking.rows import Row, rows
from upright.cli.output import Output, say
from upright.records.benchmark import Benchmark, Shape

if TYPE_CHECKING:
    from upright.benchmarking.cell import Subject
    from upright.benchmarking.load import Tally
    from upright.benchmarking.sweep import Asked, Watch
    from upright.records.benchmark import Cell


def workloads_page(output: Output) -> None:
    from upright.benchmarking.workload import workloads

    def page(console: Console) -> None:
        table = Table(box=None, pad_edge=False, header_style="dim")
        for heading in ("workload", "what it is", "as measured by"):
            table.add_column(heading, overflow="fold")
        for row in workloads().values():
            table.add_row(Text(row.name, style="bold"), row.about, Text(row.source, style="dim"))
        console.print(table)

    output.answer([row.model_dump(mode="json") for row in workloads().values()], page)
    output.next("bench", "--workload", "knee")


def benchmark_page(console: Console, record: Benchmark) -> None:
    console.print(Text.assemble((record.title, "bold"), f"  {record.workload}: {record.about}"))
    found = rows(record.cells)
    if found:
        console.print(_table(record, found))
    for row in found:
        for words in row.marks:
            console.print(Text(f"  ! {_name(record, row)}: {words}", style="yellow"))
        for words in row.notes:
            console.print(Text(f"    {_name(record, row)}: {words}", style="dim"))
    for item in record.skipped:
        console.print(Text(f"  not measured, {_words(item.shape)}: {item.reason}", style="dim"))
    if record.finding:
        console.print(Text(record.finding, style="bold"))
    console.print(Text(_generator(record), style="dim"))


def _table(record: Benchmark, found: list[Row]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    several = len({(row.shape.prompt_tokens, row.shape.output_tokens) for row in found}) > 1
    open_arrival = any(row.shape.arrival == "open" for row in found)
    headings = [
        "rate" if open_arrival else "at once",
        "output tok/s",
        "total",
        "peak",
        "TTFT",
        "TPOT",
        "p99 ITL",
        "failed",
    ]
    if record.subjects:
        table.add_column("")
    if several:
        table.add_column("in/out", justify="right")
    for heading in headings:
        table.add_column(heading, justify="right")
    for row in found:
        cells = [
            f"{row.shape.requests_per_second:g}/s" if row.shape.arrival == "open" else f"{row.shape.concurrency:,}"
        ]
        cells += [_number(row, "output"), _number(row, "total", plain=True), _number(row, "peak", plain=True)]
        cells += [_time(row, name) for name in ("ttft", "tpot", "itl_p99")]
        cells.append(f"{sum(cell.failed for cell in row.cells):,}")
        before = [row.subject] if record.subjects else []
        before += [f"{row.shape.prompt_tokens:,}/{row.shape.output_tokens:,}"] if several else []
        table.add_row(*before, *cells, style="yellow" if row.marked else None)
    return table


def _number(row: Row, metric: str, *, plain: bool = False) -> str:
    found = row.mean(metric)
    if found is None:
        return "-"
    digits = 1 if found.value < 100 else 0
    half = "" if plain or found.high is None else f" ±{found.high - found.value:,.{digits}f}"
    return f"{found.value:,.{digits}f}{half}{'!' if row.marked and not plain else ''}"


def _time(row: Row, metric: str) -> str:
    found = row.mean(metric)
    return "-" if found is None else milliseconds(found.value)


def milliseconds(seconds: float) -> str:
    """`12.3 ms`, `123 ms`, `1,234 ms`: one unit down a column."""
    value = 1000 * seconds
    return f"{value:,.{2 if value < 10 else 1 if value < 100 else 0}f} ms"


def _name(record: Benchmark, row: Row) -> str:
    return (f"{row.subject}, " if record.subjects else "") + _words(row.shape)


def _words(shape: Shape) -> str:
    how = f"{shape.requests_per_second:g} a second" if shape.arrival == "open" else f"{shape.concurrency:,} at once"
    return f"{shape.prompt_tokens:,}/{shape.output_tokens:,} {how}"


def _generator(record: Benchmark) -> str:
    test = record.self_test
    if test is None:
        return "the generator was not tested on this machine"
    return (
        f"the generator's own error here, {test.concurrency:,} streams: TTFT {1000 * test.ttft_error_seconds:+.1f} ms,"
        f" ITL {test.itl_error_percent:+.2f} %, throughput {test.throughput_error_percent:+.2f} % ({test.loop})"
    )


@contextmanager
def progress(asked: Asked) -> Iterator[Watch]:
    """A bar on stderr if it is a terminal; otherwise a line for each cell."""
    from upright.benchmarking.sweep import Watch

    if not sys.stderr.isatty():
        yield Watch(on_done=_say_cell, tell=say)
        return
    from rich.progress import BarColumn, Progress, TextColumn

    bar = Progress(
        TextColumn("{task.description}"), BarColumn(bar_width=20), TextColumn("{task.fields[state]}"),
        console=Console(stderr=True), auto_refresh=False, transient=True,
    )  # fmt: skip
    with bar:
        task = bar.add_task("", total=1, state="asking the server what words cost")
        bar.refresh()
        yield _watch(bar, task, asked)


def _watch(bar: object, task: object, asked: Asked) -> Watch:
    from rich.progress import Progress, TaskID

    from upright.benchmarking.sweep import Watch

    assert isinstance(bar, Progress)
    number = TaskID(int(str(task)))
    began = time.monotonic()
    place = {"done": 0, "of": 1, "requests": 1}

    def on_cell(subject: Subject, shape: Shape, repeat: int, done: int, of: int) -> None:
        place.update(done=done, of=of or done + 1, requests=shape.requests * shape.turns)
        again = f", {repeat} of {asked.repeats}" if asked.repeats > 1 else ""
        bar.update(
            number, description=f"{_words(shape)}{again}", completed=0, total=place["requests"], state="warming up"
        )
        bar.refresh()

    def on_tick(tally: Tally, in_flight: int) -> None:
        share = tally.succeeded / place["requests"]
        finished = place["done"] + share
        spent = time.monotonic() - began
        left = spent * (place["of"] - finished) / finished if finished > 0.2 else None
        words = f"{in_flight:,} in flight, {sum(tally.errors.values()):,} failed"
        words += f", about {units.duration(left)} left" if left is not None and place["of"] > 1 else ""
        bar.update(number, completed=tally.succeeded, state=words)
        bar.refresh()

    def on_done(cell: Cell, remembered: bool) -> None:
        bar.console.print(Text(_cell_words(cell, remembered), style="yellow" if cell.marks else "dim"))

    return Watch(on_cell, on_tick, on_done, lambda words: bar.console.print(Text(words, style="dim")))


def _say_cell(cell: Cell, remembered: bool) -> None:
    say(_cell_words(cell, remembered))


def _cell_words(cell: Cell, remembered: bool) -> str:
    words = f"{_words(cell.shape)}: {cell.output_tokens_per_second:,.1f} tok/s"
    if cell.ttft_seconds is not None:
        words += f", first token {milliseconds(cell.ttft_seconds.mean)}"
    if cell.marks:
        words += f" ! {cell.marks[0]}"
    return words + (" (measured before)" if remembered else "")
