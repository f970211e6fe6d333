"""Benchmarks -> CSV, a line for each cell, marked ones too."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable

from upright.base.untrusted_text import on_one_line
from upright.facts.records.benchmark import Benchmark, Cell
from upright.proof.benchmark.rows import METRICS

_ASKED = (
    "prompt_tokens", "output_tokens", "concurrency", "requests", "arrival", "requests_per_second", "turns",
)  # fmt: skip
_SEEN = ("sent", "succeeded", "unfinished", "in_flight_peak", "in_flight_mean", "cached_tokens", "seconds")


def cells_csv(benchmarks: Iterable[Benchmark]) -> str:
    """Times in seconds, rates per second, as the records have them."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    measured = [
        f"{metric.name}_{metric.unit.replace('/s', '_per_second').replace('%', 'percent')}" for metric in METRICS
    ]
    counted = ["prompt_tokens_counted", "output_tokens_counted", "failed", "running_peak", "waiting_peak"]
    names = ["benchmark", "workload", "run", "subject", "repeat", "at", "api"]
    writer.writerow([*names, *_ASKED, *_SEEN, *counted, *measured, "program", "marks"])
    for record in benchmarks:
        for cell in record.cells:
            writer.writerow(map(_no_formula, _line(record, cell)))
    return text.getvalue()


def _no_formula(cell: object) -> object:
    """A spreadsheet runs what begins so; a quote before it makes it text (OWASP, CSV injection)."""
    if not isinstance(cell, str):
        return cell
    shown = on_one_line(cell)
    return f"'{shown}" if shown.lstrip().startswith(("=", "+", "-", "@")) else shown


def _line(record: Benchmark, cell: Cell) -> list[object]:
    view = cell.engine
    return [
        record.title, cell.workload, cell.run, cell.subject, cell.repeat, cell.at, cell.api,
        *(getattr(cell.shape, name) for name in _ASKED),
        *(getattr(cell, name) for name in _SEEN),
        cell.prompt_tokens and cell.prompt_tokens.mean,
        cell.output_tokens and cell.output_tokens.mean,
        cell.failed,
        view and view.running and view.running.high,
        view and view.waiting and view.waiting.high,
        *(metric.of(cell) for metric in METRICS),
        cell.machine.program,
        "; ".join(cell.marks),
    ]  # fmt: skip
