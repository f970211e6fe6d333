"""Published results of one model on one kind of box, without reading all of them as rows.

A plan asks at every start, and 1,400 rows cost more than the plan: the table's lines are read as text, and only what
fits is looked at.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from upright.base.bounds.files import file_text
from upright.facts import catalog
from upright.facts.catalog.loader import files
from upright.facts.catalog.rows.hardware import GpuRow

_EDITION_UNSAID = {"RTX PRO 6000 Blackwell": "rtx-pro-6000-server"}
"""What authors write of a card that is sold in several editions."""


def gpu_named(name: str) -> GpuRow | None:
    """The row of a GPU as its author writes it; None for a run without one, and where no row is that GPU."""
    row = catalog.find("gpus", _EDITION_UNSAID.get(name, name))
    return row if isinstance(row, GpuRow) else None


class PublishedRate(NamedTuple):
    """One published decode rate."""

    id: str
    date: str
    model: str
    artifact: str
    """The build as its author names it, or how its weights are stored."""
    gpu: str
    engine: str
    version: str
    parallelism: str
    speculation: str
    kv_dtype: str
    context_tokens: int
    concurrency: int
    tokens_per_second: float
    kv_tokens: int | None
    source: str


class _Line(NamedTuple):
    """A line of the table as it is written."""

    model: str
    """In lower case."""
    columns: list[str]
    values: list[str]


def published_rates(
    models: frozenset[str] | None, same_gpu: Callable[[str], bool], count: int
) -> Iterator[PublishedRate]:
    """Decode rates of these models, by any of their names in lower case, or of all, on so many of such a GPU."""
    for model, columns, values in _lines():
        if models is not None and model not in models and model.rpartition("/")[2] not in models:
            continue
        cells = dict(zip(columns, values, strict=True))
        if _of_decode(cells) and int(cells["gpu_count"]) == count and same_gpu(cells["gpu"]):
            yield _rate(cells)


@cache
def _lines() -> tuple[_Line, ...]:
    tables = (path for path, owner in files("measurements") if owner == "upright" and path.suffix == ".csv")
    return tuple(line for path in tables for line in _table(path))


def _table(path: Path) -> Iterator[_Line]:
    lines = csv.reader(io.StringIO(file_text(path), newline=""))
    columns = next(lines)
    place = columns.index("model")
    yield from (_Line(values[place].lower(), columns, values) for values in lines if values)


def _of_decode(cells: dict[str, str]) -> bool:
    """Not prefill nor an aggregate, and both the load and the number of GPUs are told."""
    told = cells["decode_tokens_per_second"] and cells["gpu_count"] and cells["concurrency"]
    return bool(told) and cells.get("kind") not in ("prefill", "aggregate")


def _rate(cells: dict[str, str]) -> PublishedRate:
    return PublishedRate(
        id=cells["id"],
        date=cells["date"],
        model=cells["model"],
        artifact=cells.get("artifact") or cells.get("quant") or "",
        gpu=cells["gpu"],
        engine=cells["engine"],
        version=cells["engine_version"],
        parallelism=cells["parallelism"],
        speculation="" if cells["speculation"] == "none" else cells["speculation"],
        kv_dtype=cells["kv_dtype"],
        context_tokens=int(cells["context_tokens"] or 0),
        concurrency=int(cells["concurrency"]),
        tokens_per_second=float(cells["decode_tokens_per_second"]),
        kv_tokens=int(cells["kv_tokens"]) if cells.get("kv_tokens") else None,
        source=cells["sources"].partition(";")[0].strip(),
    )
