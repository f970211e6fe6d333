"""Published results of one model on one kind of box, without reading all of them as rows.

A plan asks at every start, and 1,400 rows cost more than the plan: the table's lines are read as text, and only what
fits is looked at.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from upright.base.bounds.files import file_text
from upright.facts import catalog
from upright.facts.catalog.loader import files
from upright.facts.catalog.rows.hardware import GpuRow

_ANSWER = re.compile(r"\bOSL (\d+)|\bin / (\d+) out|mean output (\d+)")
_SITE = re.compile(r"https?://(?:www\.)?([^/]+)/?([^/]*)/?([^/]*)")
_SHARED_SITES = ("github.com", "huggingface.co")
_EDITION_UNSAID = {"RTX PRO 6000 Blackwell": "rtx-pro-6000-server"}
"""What authors write of a card that is sold in several editions."""


def gpu_named(name: str) -> GpuRow | None:
    """The row of a GPU as its author writes it; None for a run without one, and where no row is that GPU."""
    row = catalog.find("gpus", _EDITION_UNSAID.get(name, name))
    return row if isinstance(row, GpuRow) else None


def publisher(source: str) -> str:
    """Who measured it: a repository, or a site."""
    site = _SITE.match(source)
    if site is None:
        return re.split("[@: ]", source)[0]
    return f"{site[2]}/{site[3]}" if site[1] in _SHARED_SITES else site[1]


def answered_tokens(notes: str | None) -> int | None:
    """Tokens of each answer, where a rate has the prompts in it that others bring meanwhile."""
    found = _ANSWER.search(notes or "")
    return int(found[1] or found[2] or found[3]) if found else None


def gb_s(host_bandwidth: str) -> float | None:
    """None in words, as `DDR5-6400`: of how many channels is not told."""
    figure = host_bandwidth.partition(" ")[0]
    return float(figure) if figure.replace(".", "").isdigit() else None


def one_shot(interconnect: str | None) -> bool:
    """Whether its author tells of an all-reduce that takes one shot over PCIe."""
    text = interconnect or ""
    return "C++ PCIe all-reduce" in text or "PCIe all-reduce 1" in text


def gpu_edition(name: str) -> str | None:
    """The row of a GPU as its author writes it; None where a card is sold in several editions and none is named."""
    gpu = None if name in _EDITION_UNSAID else gpu_named(name)
    return gpu.id if gpu else None


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
    cpu: str
    """Processor and memory."""
    gpu_expert_layers: int | None
    """Layers whose routed experts were on GPUs; None where that is not told."""
    one_shot: bool
    """Whether the all-reduce was one that takes a single shot over PCIe."""
    group: str
    """One configuration of one source."""
    served: bool
    """Whether prompts that others bring are in the rate."""
    host_gb_s: float | None
    """Bandwidth of system RAM, where its author gives it in GB/s."""

    @property
    def build(self) -> str:
        """Runs of one build of an engine, in one configuration."""
        return f"{self.engine} {self.version} {self.group}"


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
    for model, columns, values in lines():
        if models is not None and model not in models and model.rpartition("/")[2] not in models:
            continue
        cells = dict(zip(columns, values, strict=True))
        if _of_decode(cells) and int(cells["gpu_count"]) == count and same_gpu(cells["gpu"]):
            yield _rate(cells)


@cache
def lines() -> tuple[_Line, ...]:
    tables = (path for path, owner in files("measurements") if owner == "upright" and path.suffix == ".csv")
    return tuple(line for path in tables for line in _table(path))


def _table(path: Path) -> Iterator[_Line]:
    told = csv.reader(io.StringIO(file_text(path), newline=""))
    columns = next(told)
    place = columns.index("model")
    yield from (_Line(values[place].lower(), columns, values) for values in told if values)


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
        cpu=cells["cpu"],
        gpu_expert_layers=int(cells["gpu_expert_layers"]) if cells.get("gpu_expert_layers") else None,
        one_shot=one_shot(cells["interconnect"]),
        group=cells.get("group") or "",
        served=not cells.get("kind") and answered_tokens(cells["notes"]) is not None,
        host_gb_s=gb_s(cells["host_bandwidth"]),
    )
