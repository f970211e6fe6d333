"""A table that somebody published, as CSV -> a Benchmark that says whose it is.

The first lines are `# name: value` (title, source, workload, about, model, engine); columns are named as below.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping

from upright.base.errors import ReadError
from upright.engines.facets.bench import Foreign
from upright.facts.records.benchmark import Benchmark, Shape, Spread
from upright.facts.records.spreads import spread_of
from upright.proof.benchmark.drivers.foreign import cell_of

COLUMNS = (
    "prompt_tokens", "output_tokens", "concurrency", "output_tokens_per_second", "total_tokens_per_second",
    "peak_tokens_per_second", "mean_ttft_ms", "mean_tpot_ms", "note",
)  # fmt: skip


def read(text: str) -> Benchmark:
    head: dict[str, str] = {}
    for line in text.splitlines():
        if line.startswith("#") and ":" in line:
            name, _, header_text = line[1:].partition(":")
            head[name.strip()] = header_text.strip()
    rows = list(csv.DictReader(io.StringIO("\n".join(line for line in text.splitlines() if not line.startswith("#")))))
    missing = [name for name in ("title", "source", "workload") if name not in head]
    if missing or not rows or not set(rows[0]) <= set(COLUMNS):
        wrong = f"lines # {', # '.join(missing)} are missing" if missing else f"columns are {', '.join(COLUMNS)}"
        raise ReadError(f"not a table of published figures: {wrong}")
    try:
        cells = tuple(cell_of(_figures(row), run=head["title"], workload=head["workload"]) for row in rows)
    except (KeyError, ValueError) as error:
        raise ReadError(f"not a table of published figures: {error}") from None
    return Benchmark(
        run=head["title"], title=head["title"], workload=head["workload"], about=head.get("about", head["workload"]),
        deployment=None, model=head.get("model", head["title"]), engine=head.get("engine"), engine_version=None,
        base_url=None, at=head.get("date", ""), seed=0, repeats=1, self_test=None, cells=cells, source=head["source"],
    )  # fmt: skip


def _figures(row: Mapping[str, str]) -> Foreign:
    def number(name: str) -> float | None:
        text = (row.get(name) or "").replace(",", "")
        return float(text) if text else None

    def one(name: str) -> Spread | None:
        milliseconds = number(name)
        return None if milliseconds is None else spread_of([milliseconds / 1000])

    streams = int(row["concurrency"].replace(",", ""))
    return Foreign(
        program="published",
        version=None,
        shape=Shape(
            prompt_tokens=int(row["prompt_tokens"]), output_tokens=int(row["output_tokens"]),
            concurrency=streams, requests=streams,
        ),
        seconds=0.0,
        sent=streams,
        succeeded=streams,
        output_tokens_per_second=number("output_tokens_per_second") or 0.0,
        total_tokens_per_second=number("total_tokens_per_second") or 0.0,
        peak_tokens_per_second=number("peak_tokens_per_second"),
        requests_per_second=0.0,
        ttft=one("mean_ttft_ms"),
        tpot=one("mean_tpot_ms"),
        notes=(row["note"],) if row.get("note") else (),
    )  # fmt: skip
