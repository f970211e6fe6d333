"""Measurements of the catalogue -> Reports: public tables that state box, command and figures, one for each table.

Only engines whose parallelism is a flag: of others the published row does not hold the command.
"""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from scripts.seeding.publications import Report, ReportedConfiguration, ReportedFigures, ReportedTable
from upright.base.yaml12 import from_yaml
from upright.evidence.share.statement import ClaimedMetric
from upright.facts import catalog
from upright.facts.catalog.rows.hardware import GpuRow
from upright.facts.catalog.rows.model import ModelRow
from upright.facts.catalog.rows.words import MeasurementRow
from upright.facts.records.base import canonical

_PARALLEL = re.compile(r"(?:(?:TP|DCP|EP)[0-9]+)(?: (?:TP|DCP|EP)[0-9]+)*")
_CACHE = re.compile(r"fp8(?:_e[45]m[23])?|bf16")
_OUTPUT = "output (tok/s)"
_COLUMNS: dict[str, tuple[str, ClaimedMetric | None]] = {
    "context_tokens": ("context (tokens)", None), "concurrency": ("at once", None),
    "decode_tokens_per_second": (_OUTPUT, "output"), "prefill_tokens_per_second": ("prefill (tok/s)", None),
    "ttft_seconds": ("TTFT (s)", "ttft"), "tpot_ms": ("TPOT", "tpot"), "kv_tokens": ("KV cache (tokens)", None),
}  # fmt: skip


@cache
def _ways() -> dict[str, dict[str, str]]:
    """Engine -> how it is told of parallelism, by the letters that a table has for it."""
    flags: dict[str, dict[str, str]] = from_yaml((Path(__file__).parent / "published_flags.yaml").read_text("utf-8"))
    return flags


class TableKey(NamedTuple):
    """One table: rows of one source that share everything but the load."""

    source: str
    model: str
    gpu: str
    gpus: int
    engine: str
    version: str | None
    artifact: str
    parallelism: str
    cache: str | None
    speculation: str


def tabulated(rows: Iterable[MeasurementRow], *, without: frozenset[str] = frozenset()) -> tuple[Report, ...]:
    """`without` are sources whose facts are reports of their own."""
    tables: defaultdict[TableKey, list[MeasurementRow]] = defaultdict(list)
    for row in rows:
        if row.sources[0] not in without and (key := _key(row)) is not None:
            tables[key].append(row)
    return tuple(_report(key, tables[key], number) for number, key in _numbered(tables))


def _numbered(tables: Iterable[TableKey]) -> Iterator[tuple[int, TableKey]]:
    """Which of the tables of one name: their order is that of the rows."""
    counts: defaultdict[str, int] = defaultdict(int)
    for key in tables:
        counts[_name(key)] += 1
        yield counts[_name(key)], key


def _key(row: MeasurementRow) -> TableKey | None:
    """None of a row that does not state what a claim needs."""
    model, gpu = catalog.find_model(row.model), catalog.find_gpu(row.gpu) or catalog.find("gpus", row.gpu)
    if not isinstance(model, ModelRow) or not isinstance(gpu, GpuRow) or not row.gpu_count or row.grade == "C":
        return None
    if row.engine not in _ways() or not _PARALLEL.fullmatch(row.parallelism or ""):
        return None
    if any(way.rstrip("0123456789") not in _ways()[row.engine] for way in (row.parallelism or "").split()):
        return None
    return TableKey(
        _source(row), model.id, gpu.id, row.gpu_count, row.engine, row.engine_version, row.artifact or row.model,
        row.parallelism or "", row.kv_dtype, row.speculation or "none",
    )  # fmt: skip


def _source(row: MeasurementRow) -> str:
    """Without the line in it."""
    return re.sub(r":[0-9]+(?:-[0-9]+)?$", "", row.sources[0])


def _name(key: TableKey) -> str:
    ways = key.parallelism.lower().replace(" ", "-")
    return f"{key.model}-{key.gpus}x-{key.gpu}-{key.engine}-{ways}"


def _report(key: TableKey, rows: Sequence[MeasurementRow], which: int) -> Report:
    content = canonical([row.model_dump(mode="json", exclude={"owner", "file"}) for row in rows])
    named = {name: heading for name, (heading, _) in _COLUMNS.items() if any(_cell(row, name) for row in rows)}
    measured = {heading: metric for heading, metric in _COLUMNS.values() if metric and heading in named.values()}
    stated = [f"{heading} {{{heading}}}" for heading in ("context (tokens)", "at once") if heading in named.values()]
    shape = ", ".join(stated) or "as published"
    return Report(
        title=key.source, at=min(row.date.partition("..")[0] for row in rows),
        sha256=hashlib.sha256(content).hexdigest(),
        url=key.source if key.source.startswith("https://") else None, bundles=(_configuration(key, which),),
        tables=(
            ReportedTable(
                title=f"{key.artifact}, {key.parallelism}, speculation: {key.speculation}",
                columns=("row", *named.values()),
                rows=tuple((row.id, *(_cell(row, name) for name in named)) for row in rows),
                measured=(
                    ReportedFigures(of=key.model, shape=shape, metrics=measured),
                    *(
                        ReportedFigures(of=key.model, row=number, shape=shape, metrics={_OUTPUT: "user"})
                        for number, row in enumerate(rows)
                        if row.concurrency == 1 and row.kind == "decode" and row.decode_tokens_per_second
                    ),
                ),
            ),
        ),
    )  # fmt: skip


def _configuration(key: TableKey, number: int) -> ReportedConfiguration:
    repository = key.artifact if re.fullmatch(r"[\w.-]+/[\w.-]+", key.artifact) else None
    return ReportedConfiguration(
        name=_name(key) + (f"-{number}" if number > 1 else ""), model=key.model, repository=repository, gpu=key.gpu,
        gpus=key.gpus, engine=key.engine, engine_version=key.version, program=key.engine, served_name=key.model,
        arguments=" ".join(_arguments(key)),
    )  # fmt: skip


def _arguments(key: TableKey) -> Iterator[str]:
    for way in key.parallelism.split():
        letters = way.rstrip("0123456789")
        flag = _ways()[key.engine][letters]
        yield flag if flag.startswith("--enable") else f"{flag} {way.removeprefix(letters)}"
    if key.cache and _CACHE.fullmatch(key.cache):
        yield f"--kv-cache-dtype {key.cache}"


def _cell(row: MeasurementRow, name: str) -> str:
    figure = getattr(row, name)
    if figure is None:
        return ""
    return f"{figure:g} ms" if name == "tpot_ms" else f"{figure:g}" if isinstance(figure, float) else str(figure)
