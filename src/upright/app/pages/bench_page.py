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

from upright.base import units
from upright.base.progress import Pulse, pace
from upright.base.terminal import safe_output as terminal
from upright.base.terminal.messages import say
from upright.evidence.report.views import milliseconds, sweep
from upright.facts.records.benchmark import Benchmark, Shape
from upright.proof.benchmark.comparison import shape_words

if TYPE_CHECKING:
    from upright.facts.records.benchmark import Cell
    from upright.proof.benchmark.cell import BenchSubject
    from upright.proof.benchmark.load import StreamTally
    from upright.proof.benchmark.sweep import SweepRequest, SweepWatch


def workloads_page(console: Console) -> None:
    from upright.proof.benchmark.workload import workloads

    table = Table(box=None, pad_edge=False, header_style="dim")
    for heading in ("workload", "what it is", "as measured by"):
        table.add_column(heading, overflow="fold")
    for row in workloads().values():
        table.add_row(Text(row.name, style="bold"), row.about, Text(row.source, style="dim"))
    console.print(table)


_SHORT = {"total tok/s": "total", "peak tok/s": "peak", "mean TTFT": "TTFT", "mean TPOT": "TPOT", "recipe": ""}


def benchmark_page(console: Console, record: Benchmark) -> None:
    view = sweep(record, draw=False)
    console.print(Text.assemble((record.title, "bold"), f"  {record.workload}: {record.about}"))
    for letter, name in record.subjects.items():
        console.print(Text(f"  {letter}: {name}", style="dim"))
    if view.lines:
        table = Table(box=None, pad_edge=False, header_style="dim")
        for heading in view.headings:
            table.add_column(_SHORT.get(heading, heading), justify="right")
        for line in view.lines:
            place = view.headings.index("output tok/s")
            cells = [f"{cell}!" if line.marked and at == place else cell for at, cell in enumerate(line.cells)]
            table.add_row(*cells, style="yellow" if line.marked else None)
        console.print(table)
    for remark in view.marks:
        console.print(Text(f"  ! {remark}", style="yellow"))
    for remark in view.notes:
        console.print(Text(f"    {remark}", style="dim"))
    for left_out in record.skipped:
        console.print(Text(f"  not measured, {shape_words(left_out.shape)}: {left_out.reason}", style="dim"))
    if record.finding:
        console.print(Text(record.finding, style="bold"))
    if len(record.subjects) == 2:
        from upright.proof.benchmark.bench import compared_subjects

        for sentence in compared_subjects(record.cells, {letter: letter for letter in record.subjects})[1:]:
            console.print(Text(f"  {sentence}"))
    console.print(Text(view.generator, style="dim"))


@contextmanager
def bench_progress_bar(asked: SweepRequest) -> Iterator[SweepWatch]:
    """A bar on stderr if it is a terminal; otherwise a line for each cell, and one where a cell takes long."""
    if not sys.stderr.isatty():
        yield from _watched_lines(asked)
        return
    from rich.progress import BarColumn, Progress, TextColumn

    bar = Progress(
        TextColumn("{task.description}", markup=False), BarColumn(bar_width=20),
        TextColumn("{task.fields[state]}", markup=False),
        console=terminal.console(stderr=True), auto_refresh=False, transient=True,
    )  # fmt: skip
    with bar:
        task = bar.add_task("", total=1, state="asking the server what words cost")
        bar.refresh()
        yield _watch(bar, task, asked)


def _watched_lines(asked: SweepRequest) -> Iterator[SweepWatch]:
    from upright.proof.benchmark.sweep import SweepWatch

    tell, words = Pulse(say), ["asking the server what words cost"]
    cell, began, requests = "", time.monotonic(), 1

    def on_cell(subject: BenchSubject, shape: Shape, repeat: int, done: int, of: int) -> None:
        nonlocal cell, began, requests
        again = f", {repeat} of {asked.repeats}" if asked.repeats > 1 else ""
        cell = f"cell {done + 1} of {max(of, done + 1)}, {shape_words(shape)}{again}"
        began, requests = time.monotonic(), shape.requests * shape.turns
        words[0] = f"{cell}: warming up"

    def on_tick(tally: StreamTally, in_flight: int) -> None:
        words[0] = f"{cell}: {pace(tally.succeeded, requests, time.monotonic() - began, 'requests')}"

    with tell.watching(lambda: f"  {words[0]}"):
        yield SweepWatch(on_cell, on_tick, lambda cell, remembered: tell(_cell_words(cell, remembered)), tell)


def _watch(bar: object, task: object, asked: SweepRequest) -> SweepWatch:
    from rich.progress import Progress, TaskID

    from upright.proof.benchmark.sweep import SweepWatch

    assert isinstance(bar, Progress)
    number = TaskID(int(str(task)))
    began = time.monotonic()
    place = {"done": 0, "of": 1, "requests": 1}

    def on_cell(subject: BenchSubject, shape: Shape, repeat: int, done: int, of: int) -> None:
        place.update(done=done, of=of or done + 1, requests=shape.requests * shape.turns)
        again = f", {repeat} of {asked.repeats}" if asked.repeats > 1 else ""
        bar.update(
            number, description=f"{shape_words(shape)}{again}", completed=0, total=place["requests"], state="warming up"
        )
        bar.refresh()

    def on_tick(tally: StreamTally, in_flight: int) -> None:
        share = tally.succeeded / place["requests"]
        finished = place["done"] + share
        spent = time.monotonic() - began
        left = spent * (place["of"] - finished) / finished if finished > 0.2 else None
        status = f"{in_flight:,} in flight, {sum(tally.errors.values()):,} failed"
        status += f", about {units.format_duration(left)} left" if left is not None and place["of"] > 1 else ""
        bar.update(number, completed=tally.succeeded, state=status)
        bar.refresh()

    def on_done(cell: Cell, remembered: bool) -> None:
        bar.console.print(Text(_cell_words(cell, remembered), style="yellow" if cell.marks else "dim"))

    return SweepWatch(on_cell, on_tick, on_done, lambda sentence: bar.console.print(Text(sentence, style="dim")))


def _cell_words(cell: Cell, remembered: bool) -> str:
    summary = f"{shape_words(cell.shape)}: {cell.output_tokens_per_second:,.1f} tok/s"
    if cell.ttft_seconds is not None:
        summary += f", first token {milliseconds(cell.ttft_seconds.mean)}"
    if cell.marks:
        summary += f" ! {cell.marks[0]}"
    return summary + (" (measured before)" if remembered else "")
