"""Published results of one model on one kind of box, without reading all of them as rows.

A plan asks at every start, and 1,400 rows cost more than the plan: the table's lines are read as text, and only what
fits is looked at.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

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


@dataclass(frozen=True)
class _Line:
    model: str
    gpu: str
    count: int
    published: PublishedRate


def published_rates(models: frozenset[str], same_gpu: Callable[[str], bool], count: int) -> Iterator[PublishedRate]:
    """Decode rates of these models, by any of their names in lower case, on so many of such a GPU."""
    for line in _lines():
        if line.count == count and {line.model, line.model.rpartition("/")[2]} & models and same_gpu(line.gpu):
            yield line.published


@cache
def _lines() -> tuple[_Line, ...]:
    result_lines: list[_Line] = []
    for path, owner in files("measurements"):
        if owner == "upright" and path.suffix == ".csv":
            with path.open(encoding="utf-8", newline="") as file:
                result_lines += (line for cells in csv.DictReader(file) if (line := _line(cells)) is not None)
    return tuple(result_lines)


def _line(cells: dict[str, str]) -> _Line | None:
    """None for prefill, for an aggregate, and where the load or the number of GPUs is not told."""
    rate, count, requests = (cells[name] for name in ("decode_tokens_per_second", "gpu_count", "concurrency"))
    if not rate or not count or not requests or cells.get("kind") in ("prefill", "aggregate"):
        return None
    seen = PublishedRate(
        id=cells["id"],
        date=cells["date"],
        engine=cells["engine"],
        version=cells["engine_version"],
        parallelism=cells["parallelism"],
        speculation="" if cells["speculation"] == "none" else cells["speculation"],
        kv_dtype=cells["kv_dtype"],
        context_tokens=int(cells["context_tokens"] or 0),
        concurrency=int(requests),
        tokens_per_second=float(rate),
        kv_tokens=int(cells["kv_tokens"]) if cells.get("kv_tokens") else None,
        source=cells["sources"].partition(";")[0].strip(),
    )
    return _Line(cells["model"].lower(), cells["gpu"], int(count), seen)
